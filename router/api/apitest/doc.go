// Package apitest has a slow and obvious storage for the public gRPC API, and starts
// servers over it in the process of a test.
package apitest
