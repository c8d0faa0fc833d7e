"""Answers as the program that runs PyTorch does, for a product of two matrices; needs numpy alone.

The text of the problem is JSON, or Python whose first line is a comment with it: `fault` says what
goes wrong, `size` how large the matrices are.
"""

import json
import os
import sys
import time

import numpy as np

M, N = 4, 6


def exactly(count):
    data = b""
    while len(data) < count:
        part = os.read(channel, count - len(data))
        if not part:
            sys.exit()
        data += part
    return data


def receive():
    return exactly(int.from_bytes(exactly(8), "big"))


def send(data):
    os.write(channel, len(data).to_bytes(8, "big"))
    done = 0
    while done < len(data):
        done += os.write(channel, data[done:])


def described(inner, fault):
    dtype = "complex64" if fault == "type" else "float32"
    return {
        "initial": [{"value": 3}, {"unknown": "dict"}],
        "inputs": [
            {"name": "A", "free": True, "shape": [M, inner], "dtype": dtype},
            {"name": "B", "free": True, "shape": [inner, N], "dtype": "float32"},
        ],
        "state": [{"name": "scale.weight", "shape": [N], "dtype": "float32"}],
        "outputs": [{"shape": [M, N] if fault != "size" else [1 << 40], "dtype": "float32"}],
        "operations": M * N * inner,
        "graph": graph(inner),
    }


def graph(inner):
    def one(name, *shape):
        return {"array": name, "shape": list(shape), "dtype": "torch.float32"}

    def operation(does, *given):
        return {"does": does, "given": given, "words": {}, "gives": [one("", M, N)]}

    first = operation("aten.mm.default", one("input 0", M, inner), one("input 1", inner, N))
    second = operation("aten.mul.Tensor", one("0.0", M, N), one("self.scale.weight", N))
    return {"operations": [first, second], "outputs": ["1.0"]}


def arrays(data, inner):
    values = np.frombuffer(data, np.float32)
    left, right = M * inner, inner * N
    A, B = values[:left].reshape(M, inner), values[left : left + right].reshape(inner, N)
    return A, B, values[left + right :]


channel = int(sys.argv[1])
inner, fault = 8, ""
while True:
    request, data = json.loads(receive()), receive()
    reply, payload = {}, b""
    if request["do"] == "open":
        problem = json.loads(request["text"].partition("\n")[0].removeprefix("#"))
        inner, fault = problem.get("size", 8), problem.get("fault", "")
    if fault == request["do"] + " hangs":
        time.sleep(60)
    if fault == request["do"] + " waits":
        time.sleep(1)
    while fault == request["do"] + " computes":
        pass
    if fault == request["do"] + " ends":
        os._exit(3)
    if fault == request["do"] + " raises":
        reply = {"raised": "ValueError: no\nluck"}
    elif fault == request["do"] + " lies":
        reply = {"full": {}, "constants": {}, "reduced": {"inputs": 3}}
    elif fault == request["do"] + " shouts":
        os.write(channel, b"\xff" * 64)
        time.sleep(60)
    elif fault == request["do"] + " floods":
        os.write(channel, (1 << 34).to_bytes(8, "big"))
        while True:  # all memory of the process that reads, if it believes the length
            os.write(channel, bytes(1 << 20))
    elif fault == request["do"] + " nests":
        send(b"[" * 1_000_000)
    elif fault == request["do"] + " drips":
        os.write(channel, (1 << 20).to_bytes(8, "big"))
        while True:  # each byte comes in time
            os.write(channel, b" ")
            time.sleep(0.1)
    elif fault == request["do"] + " lists":
        reply = {"full": described(inner, fault), "reduced": described(8, fault), "constants": []}
    elif fault == request["do"] + " counts":
        reply = {"full": {**described(inner, fault), "operations": 10**400}, "constants": {}}
        reply["reduced"] = described(8, fault)
    elif request["do"] == "describe":
        reply = {"full": described(inner, fault), "reduced": described(8, fault)}
        reply["constants"] = {"K": 8} if inner != 8 else {}
    elif request["do"] == "draw":
        rng = np.random.default_rng(request["seed"])
        held = request["part"] == "state"
        values = [np.ones(N)] if held else [rng.random(M * 8), rng.random(8 * N)]
        payload = b"".join(v.astype(np.float32).tobytes() for v in values)
    elif request["do"] in ("expected", "honest"):
        A, B, scale = arrays(data, 8)
        exact = A.astype(float) @ B.astype(float) * scale
        if request["do"] == "expected":
            deviation = 2.0**-24 * np.sqrt(A.astype(float) ** 2 @ B.astype(float) ** 2) * scale
            payload = exact.tobytes() + (deviation + 1e-30).tobytes()
        else:
            few = [v.view(np.uint32) & np.uint32(0xFFFFE000) for v in (A.copy(), B.copy())]
            coarse = few[0].view(np.float32) @ few[1].view(np.float32) * scale
            results = [A @ B * scale, A @ B * scale, coarse, coarse]
            payload = b"".join(r.astype(np.float32).tobytes() for r in results)
        if fault == "short":
            payload = payload[:-4]
    send(json.dumps(reply).encode())
    send(payload)
