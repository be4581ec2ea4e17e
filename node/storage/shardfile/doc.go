// Package shardfile keeps a form of each shard, as it was at a checkpoint, in one file of the data folder that the manifest names.
// It refuses to know what the forms mean.
package shardfile
