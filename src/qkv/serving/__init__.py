"""The server: engine queue, HTTP routes and the page."""
