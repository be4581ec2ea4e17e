package etcdstore

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Metadata implements shardmap.Store.
func (s *Store) Metadata(ctx context.Context, since int64) (changed []shardmap.MetadataRecord, revision int64, err error) {
	err = s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		prefix := s.keys.metadata("")
		got, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithMinModRev(since+1))
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			r := shardmap.MetadataRecord{Database: strings.TrimPrefix(string(kv.Key), prefix), Revision: kv.ModRevision, Text: kv.Value}
			if r.Validate() == nil {
				changed = append(changed, r)
			}
		}
		revision = got.Header.Revision
		return nil
	})
	return changed, revision, err
}

// SwapMetadata implements shardmap.Store.
func (s *Store) SwapMetadata(ctx context.Context, record shardmap.MetadataRecord) (revision int64, err error) {
	if err := record.Validate(); err != nil {
		return 0, err
	}
	err = s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		key := s.keys.metadata(record.Database)
		if record.Revision == 0 {
			if err := checkRoom(ctx, client, s.keys.metadata(""), shardmap.MetadataRecordsMax, shardmap.ErrDatabases); err != nil {
				return err
			}
		}
		change := clientv3.OpPut(key, string(record.Text))
		if len(record.Text) == 0 {
			change = clientv3.OpDelete(key)
		}
		done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", record.Revision)).Then(change).Commit()
		if err != nil {
			return err
		}
		if !done.Succeeded {
			return shardmap.ErrMetadataChanged
		}
		revision = done.Header.Revision
		return nil
	})
	return revision, err
}
