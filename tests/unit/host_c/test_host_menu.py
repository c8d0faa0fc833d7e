"""What proposers are told of threads depends on what the compiler makes of them."""

from __future__ import annotations

from tilewright.native.toolchain import FLAGS, Toolchain
from tilewright.targets.host_c.instance import Instance
from tilewright.targets.host_c.target import HostTarget, refused


def told(*flags: str) -> tuple[str, str, str, str]:
    """Technique and text of the option for threads, rules and description."""
    target = HostTarget(Instance("pair", 2))
    vars(target)["_toolchain"] = Toolchain("some compiler", "cc", (*FLAGS, *flags), 2)
    brief = target.brief()
    option = next(o for o in brief.menu if o.id == "threads")
    assert brief.limits["threads"] == 2
    return option.technique, option.text, brief.rules, brief.isa


def test_loops_are_shared_by_openmp_where_the_compiler_has_it() -> None:
    technique, text, rules, isa = told("-pthread", "-fopenmp")
    assert technique == "share"
    assert "#pragma omp parallel for num_threads(2)" in text
    assert "omp.h" in rules
    assert "-fopenmp" in isa


def test_without_openmp_its_pragmas_are_not_offered() -> None:
    technique, text, rules, isa = told("-pthread")
    assert technique == ""
    assert "pthread_create" in text
    assert "pthread.h" in rules
    assert not [
        word for word in ("omp parallel", "omp.h", "-fopenmp") if word in text + rules + isa
    ]


def test_one_thread_needs_no_word_of_them() -> None:
    brief = HostTarget().brief()
    assert "threads" not in {option.id for option in brief.menu}
    assert "share" not in {option.technique for option in brief.menu}


def test_marks_of_polybench_are_allowed() -> None:
    text = "#pragma {}\nvoid kernel(float *X) {{ X[0] = 1; }}"
    assert refused(text.format("scop"), 1) is None
    assert refused(text.format("message x"), 1) is not None
