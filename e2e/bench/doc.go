// Package bench measures servers side by side: it starts each one on an empty
// folder, pinned to some cores, gives all of them the same work, checks what they
// stored, and reports what the work cost. Workloads are written once, against
// target.Target.
//
// Every run is bounded in time and in points. A figure is only reported after the
// stored count and a mean were compared with what was sent.
package bench
