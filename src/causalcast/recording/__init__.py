"""Records the messages of an application that uses another messaging system than ours."""

from causalcast.recording.recorder import Handling, Publication, Recorder

__all__ = ["Handling", "Publication", "Recorder"]
