// Package tenant manages the databases of a cluster and what each of them uses.
//
// A Directory lists the databases: those that have series, those that the rules
// name (api/tenancy), and those that were created by name. Created names are kept by a
// Names: in the placement store of a cluster (Cluster), or in the data folder of a server
// on its own (Folder).
//
// A Meter has an Account for each database. Writers ask it whether more samples may come
// now, and note what was written; it is a prometheus.Collector. Each router applies the rate
// by itself: several together let as many times as much through.
//
// # The rate
//
// An account runs ahead of its rate by what was taken. While it is not more than Burst
// ahead it takes whatever comes, so that a batch of any size passes some time, and on
// average the rate is kept exactly. What was taken and then not written is given back.
//
// # Labels
//
// The databases that the rules name have metrics of their own, as have the LabelsMax most
// used ones of the others; all others together are called "*". A database that gets a label
// of its own begins at 0 under it, and what one that loses its label has counted before is
// gone with it: no counter ever falls.
package tenant
