"""One real node, put together from parts that each know one thing.

`host` wires them and says what happens in which order; `steps` runs the stack and keeps the rule
"persist, then speak"; `effects` does what the stack asks for. A part is given what it needs, and
knows neither the host nor the parts beside it that it does not use.
"""
