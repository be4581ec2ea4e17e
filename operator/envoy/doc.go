// Package envoy writes the configuration of the Envoy in front of a cluster's routers:
// one listener for each protocol that clients speak, all routers behind each, and a
// listener for health and metrics. It is a pure function of Options; a test has a real
// Envoy read what it writes.
//
// What Envoy does here:
//
//   - A router is asked whether it is ready; one that is not gets nothing new, even if
//     none is: then Envoy answers 503 itself. So a router that stops says that it is not
//     ready first, and loses no request. One that does not answer is left out at the second
//     time: a machine that stands still for a moment must not cost all of its routers.
//   - A router whose connections break is left out for a while. Its 503 does not count:
//     that is how the cluster says that it is full, and the client has to wait.
//   - A request is repeated only where it cannot have been read: a write that is sent
//     twice may hide what another has written in between. A connection for
//     lines is led to another router when one cannot be connected to.
//   - With TLS each side is offered the protocols of its port: h2 and HTTP/1.1 for HTTP,
//     h2 for gRPC, none for lines.
//   - It is ended by operator/drain, which lets answers ask clients to connect anew, then
//     closes the listeners, and waits for the connections that are left.
//   - What one connection may have buffered is small, so that a router that stops
//     reading slows its clients and not Envoy's memory.
//
// Field names follow Envoy's v3 API.
package envoy
