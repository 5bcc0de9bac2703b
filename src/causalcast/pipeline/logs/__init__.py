"""The logs of a run as arrays, and what can be read off them: who published, what precedes what."""
