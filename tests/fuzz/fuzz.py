"""Fuzzing guided by coverage: `make fuzz`, or one target for as long as you like.

    python tests/fuzz/fuzz.py wire:locamu --seconds 60
    python tests/fuzz/fuzz.py --all --seconds 30

Each target runs in a process of its own. An exception, an input that takes longer than five
seconds, or one allocation beyond 16 MiB ends it with exit code 1 and leaves the input in a file.
What was found interesting is kept in the corpus folder and is where the next run begins.
"""

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

SLOWEST_SECONDS = 5
MOST_ALLOCATED_MB = 16
MOST_MEMORY_MB = 1024
LONGEST_INPUT = 8192


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", help="such as wire:locamu or sense:cbcast")
    parser.add_argument("--all", action="store_true", help="every target, one after the other")
    parser.add_argument("--seconds", type=int, default=30, help="per target")
    parser.add_argument("--corpus", type=Path, help="a folder that is kept (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = options.corpus or Path(temporary)
        if options.all:
            return fuzz_all(corpus, options.seconds)
        if options.target is None:
            parser.error("name a target, or --all")
        fuzz(options.target, corpus / options.target.replace("/", "-"), options.seconds)
    return 0


def fuzz_all(corpus: Path, seconds: int) -> int:
    """Every target in a process of its own: libFuzzer ends the process when it is done."""
    from fuzz_targets import targets

    failed = []
    for name in targets():
        command = [sys.executable, __file__, name, "--seconds", str(seconds)]
        done = subprocess.run(
            [*command, "--corpus", str(corpus)], capture_output=True, text=True, check=False
        )
        told = [line for line in done.stderr.splitlines() if line.startswith("Done ")]
        if done.returncode:
            failed.append(name)
            print(done.stdout[-3000:], done.stderr[-3000:])
        print(f"{name:<40} {told[-1] if told else 'FAILED'}", flush=True)
    print(f"{len(failed)} targets failed: {', '.join(failed)}" if failed else "nothing was found")
    return 1 if failed else 0


def fuzz(name: str, corpus: Path, seconds: int) -> None:
    """Fuzz one target until the time is over; does not return."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzzing by coverage needs atheris; `make fuzz` installs it")

    with atheris.instrument_imports(include=["causalcast"]):
        from fuzz_targets import examples, targets

    warnings.simplefilter("ignore")  # odd serial numbers in certificates are what we look for
    target = targets()[name]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(examples(name)):
        (corpus / f"example-{number}").write_bytes(example)
        target(example)
    flags = {
        "max_total_time": seconds,
        "timeout": SLOWEST_SECONDS,
        "malloc_limit_mb": MOST_ALLOCATED_MB,
        "rss_limit_mb": MOST_MEMORY_MB,
        "max_len": LONGEST_INPUT,
        "artifact_prefix": f"{corpus}/../found-{name.replace('/', '-')}-",
        "verbosity": 1,
    }
    arguments = [f"-{flag}={value}" for flag, value in flags.items()]
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
