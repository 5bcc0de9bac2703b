"""Spans of OpenTelemetry and Jaeger, read as the log of a messaging system."""
