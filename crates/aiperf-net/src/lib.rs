//! Connections, TLS, HTTP, SSE framing and endpoints.
