"""Messages to bytes and back: `codec` one message, `framing` where it begins and ends."""
