// Package drain drains an Envoy through its admin interface, which listens on the
// loopback only. It is what runs beside Envoy in its pods: Kubernetes ends the container
// with it first, and Envoy when that has ended.
package drain
