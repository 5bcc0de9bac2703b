"""The engine as a process: a question per line on standard input, an answer per line on the output.

A protocol that somebody changed may never end; whoever started the process can.
"""

import sys

from causalcast.lab.engine import Lab


def main() -> None:
    """Answer until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what protocols print is no answer
    lab = Lab()
    try:
        for line in sys.stdin:
            answers.write(lab.ask(line) + "\n")
            answers.flush()
    except BrokenPipeError:
        sys.stderr.close()  # whoever asked is gone
    finally:
        lab.close()


if __name__ == "__main__":
    main()
