// Package metadata remembers what writers say of metrics: their types, units and help. A Catalog knows it in the memory of a
// process, within bounds. Where it runs beside a Store it is what all processes of a cluster know, and what is known after a
// restart: a record for each database (FORMAT.md), in the placement store of a cluster, or in the data folder of a server
// on its own (Folder).
package metadata
