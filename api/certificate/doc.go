// Package certificate makes the certificates that the processes of a cluster show each
// other, and reads the names in them. A name is a URI among the alternative names of the
// subject: tickmesh://CLUSTER/ROLE or tickmesh://CLUSTER/ROLE/ID. Values only: time is an
// argument, and there are no files.
package certificate
