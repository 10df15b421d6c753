"""driver.py SHAPE LINEAGE PROGRAM ARGS...: starts the program through lineage_run, with
its output in a pipe. It prints a line when that is done, ends everything when it reads
one, and prints what it knows. SHAPE is subprocess or asyncio."""

import asyncio
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["LNGTEST_LIBRARY"])
import lineage_run  # noqa: E402

shape, lineage, *argv = sys.argv[1:]
PIPE = asyncio.subprocess.PIPE
OPTIONS = {"lineage": lineage, "grace": 0.5, "name": "library", "stdout": PIPE}


def say(document):
    print(json.dumps(document), flush=True)


def told():
    return sys.stdin.readline().strip()


def result(p):
    say({"code": p.returncode, "guarantee": p.guarantee.name.lower(), "verdict": (p.report or {}).get("verdict"),
         "why": (p.report or {}).get("verdict_why")})


def by_subprocess():
    with lineage_run.Popen(argv, **OPTIONS) as p:
        say({"session": (p.session() or {}).get("id")})
        if told() == "end":
            p.end()
        p.communicate()
    result(p)


async def by_asyncio():
    async with await lineage_run.create_subprocess_exec(*argv, **OPTIONS) as p:
        say({"session": (await p.session() or {}).get("id")})
        if await asyncio.to_thread(told) == "end":
            p.kill()
        await p.communicate()
    result(p)


if shape == "subprocess":
    by_subprocess()
else:
    asyncio.run(by_asyncio())
