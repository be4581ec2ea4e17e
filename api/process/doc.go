// Package process is what every process of TickMesh has: metrics and who may see them, health, the
// mux of its HTTP port, its memory, its version, the rules of databases that it follows, and how it
// ends. It depends on no role: what a process answers besides comes in as a handler.
package process
