// Package lab runs a real Kubernetes on one Linux machine: one control plane and a
// few nodes, each with its own kubelet, containerd, runc and kube-proxy, without a
// container engine, an image registry or a way to the outside.
//
// # What it is made of
//
// Kubernetes, CoreDNS, etcd, helm and the provisioner of volumes are compiled from
// their Go modules (see [Program]); containerd, runc and the network plugins are
// Debian's. Images are written by hack/images and imported into each node.
//
// # How it is held together
//
// The whole lab is the tree of one process, the rack. It is the first process of
// its own process, network, mount, host-name and IPC namespaces, so that the kernel
// ends all others with it: stopping the lab is ending one process. A node is again
// such a tree inside the rack, so that SIGKILL to its first process is the loss of
// power of one machine. The rack's network namespace has no link to the machine's
// network. No namespace, bridge or route has a name outside; nothing can be left
// behind but a folder and control groups, which Down removes.
//
//	machine ── run folder, control groups /tickmesh-lab-…
//	└─ rack: bridge 10.99.0.1/24, etcd, API server, scheduler, …, control socket
//	   ├─ node1: 10.99.0.11, pods 10.244.1.0/24
//	   ├─ node2: 10.99.0.12, pods 10.244.2.0/24
//	   └─ node3: …
//
// From the rack's network, services and pods are reached by their addresses: tests
// enter it (see [Rack.Enter]) and then need no forwarding of ports.
package lab
