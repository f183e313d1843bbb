"""A scriptable HTTP/1.1 and HTTP/2 server that plays the application behind Envoy."""
