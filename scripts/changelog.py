"""Makes a section of CHANGELOG.md from the news fragments, and removes them: `make changelog`.

    python scripts/changelog.py            the section of the version in version.py, dated today
    python scripts/changelog.py --dry-run  print it, change nothing

Fragments are files `newsfragments/<slug>.<kind>.md`; newsfragments/README.md says how to write one.
"""

import argparse
import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = {"feature": "New", "change": "Changed", "fix": "Mended", "removal": "Removed"}


def main() -> int:
    """Write the section, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="of the repository")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    try:
        section, used = make_section(options.root, options.date)
    except ValueError as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 2
    if options.dry_run:
        print(section, end="")
        return 0
    changelog = options.root / "CHANGELOG.md"
    changelog.write_text(inserted(changelog.read_text(), section))
    for path in used:
        path.unlink()
    print(f"{changelog.name}: {len(used)} fragments became {section.splitlines()[0]!r}")
    return 0


def make_section(root: Path, date: str) -> tuple[str, list[Path]]:
    """The text of the new section, and the fragments that it is made of."""
    version = re.search(r'VERSION = "(.+)"', (root / "src/causalcast/version.py").read_text())
    assert version is not None
    if f"## {version[1]} " in (root / "CHANGELOG.md").read_text():
        raise ValueError(f"CHANGELOG.md has {version[1]} already: raise VERSION in version.py")
    by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
    paths = sorted(p for p in (root / "newsfragments").glob("*.md") if p.name != "README.md")
    for path in paths:
        kind = path.name.split(".")[-2]
        if kind not in KINDS:
            raise ValueError(
                f"{path.name}: expected <slug>.<kind>.md with one of {', '.join(KINDS)}"
            )
        by_kind[kind].append(path.read_text().strip().replace("\n", "\n  "))
    if not paths:
        raise ValueError("there are no news fragments")
    lines = [f"## {version[1]} ({date})", ""]
    for kind, entries in by_kind.items():
        if entries:
            lines += [f"### {KINDS[kind]}", "", *(f"- {entry}" for entry in entries), ""]
    return "\n".join(lines) + "\n", paths


def inserted(changelog: str, section: str) -> str:
    """The changelog with a section more, newest first."""
    head, mark, rest = changelog.partition("\n## ")
    return f"{head}\n{section.rstrip()}\n{mark}{rest}" if mark else f"{changelog}\n{section}"


if __name__ == "__main__":
    sys.exit(main())
