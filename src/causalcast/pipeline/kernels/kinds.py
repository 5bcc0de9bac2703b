"""The kinds of events that checks look at, as numbers."""

from causalcast.trace.kinds import KIND_CODE

PUBLISH = KIND_CODE["publish"]
DELIVER = KIND_CODE["deliver"]
CRASH = KIND_CODE["crash"]
RECOVER = KIND_CODE["recover"]
JOIN = KIND_CODE["join"]
