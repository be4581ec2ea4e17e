// Command images writes container images without a container engine: the product's,
// and those that the lab's Kubernetes needs.
//
//	images product -out DIR [-prefix PREFIX]          tickmesh and, if it is there, tickmesh-operator
//	images product -out DIR -version VERSION          that say another version: for tests of upgrades
//	images pack -out FILE.tar -name NAME [flags] SOURCE:PATH[:MODE]…
//
// An image is an OCI layout in one archive; containerd imports it, and skopeo, crane
// and podman copy it to a registry. The same sources and the same compiler give the
// same bytes: files are sorted, belong to fixed users, and carry the time of the
// commit or none. Beside each executable NAME-ARCHITECTURE stands NAME-ARCHITECTURE.cdx.json,
// the list of its modules in CycloneDX.
package main
