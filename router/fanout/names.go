package fanout

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/tickmesh/tickmesh/api/scan"
	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// Metrics implements scan.Source.
func (s *Source) Metrics(ctx context.Context, database, prefix string, limit int) ([]string, error) {
	return s.names(ctx, limit, metricsRequest(database, prefix))
}

// TagNames implements scan.Source.
func (s *Source) TagNames(ctx context.Context, database, metric, prefix string, limit int) ([]string, error) {
	return s.names(ctx, limit, tagNamesRequest(database, metric, prefix))
}

// TagValues implements scan.Source.
func (s *Source) TagValues(ctx context.Context, database, metric, name, prefix string, limit int) ([]string, error) {
	return s.names(ctx, limit, tagValuesRequest(database, metric, name, prefix))
}

func metricsRequest(database, prefix string) *nodev1.ListNamesRequest {
	return &nodev1.ListNamesRequest{Kind: tickmeshv1.NameKind_NAME_KIND_METRIC, Database: []byte(database), Prefix: []byte(prefix)}
}

func tagNamesRequest(database, metric, prefix string) *nodev1.ListNamesRequest {
	return &nodev1.ListNamesRequest{
		Kind: tickmeshv1.NameKind_NAME_KIND_TAG_NAME, Database: []byte(database), Metric: []byte(metric), Prefix: []byte(prefix),
	}
}

func tagValuesRequest(database, metric, name, prefix string) *nodev1.ListNamesRequest {
	return &nodev1.ListNamesRequest{
		Kind:     tickmeshv1.NameKind_NAME_KIND_TAG_VALUE,
		Database: []byte(database), Metric: []byte(metric), TagName: []byte(name), Prefix: []byte(prefix),
	}
}

// Databases implements scan.Source.
func (s *Source) Databases(ctx context.Context) ([]string, error) {
	return s.names(ctx, 0, &nodev1.ListNamesRequest{Kind: tickmeshv1.NameKind_NAME_KIND_DATABASE})
}

// nameRun is a read of names.
type nameRun struct {
	gather
	request *nodev1.ListNamesRequest // without shards
	limit   int

	merging sync.Mutex
	names   []string // guarded by merging; sorted, each once
	bytes   int64    // guarded by merging; of names
}

func (s *Source) names(ctx context.Context, limit int, request *nodev1.ListNamesRequest) ([]string, error) {
	request.Limit, request.Freshness = limitOf(limit), s.freshness()
	r := &nameRun{request: request, limit: limit, names: []string{}}
	r.cluster, r.source, r.ask = s.cluster, s, r.askNode
	if err := r.run(ctx, nil); err != nil {
		return nil, err
	}
	return r.names, nil
}

// askNode takes the names of a whole answer: they do not tell their shards.
func (r *nameRun) askNode(ctx context.Context, o *group) error {
	of, snapshot := ofPart(ctx, r.source.partOf(o))
	stream, err := await(o.watchdog, func() (nodev1.NodeService_ListNamesClient, error) {
		return o.node.reads.ListNames(of, &nodev1.ListNamesRequest{
			Kind: r.request.Kind, Shards: shardsOf(o.reads), Database: r.request.Database, Metric: r.request.Metric,
			TagName: r.request.TagName, Prefix: r.request.Prefix, Limit: r.request.Limit, Freshness: r.request.Freshness,
			FromMs: r.request.FromMs, ToMs: r.request.ToMs, Snapshot: snapshot,
		})
	})
	if err != nil {
		return err
	}
	var names []string
	bytes, most := int64(0), r.cluster.options.Limits.ReadBytesMax
	for {
		m, err := await(o.watchdog, stream.Recv)
		if err != nil {
			return err
		}
		for _, name := range m.GetNames() {
			if bytes += int64(len(name)) + itemBytes; bytes > most {
				return &scan.LimitError{What: "bytes", Limit: most}
			}
		}
		names = appendNames(names, m.GetNames())
		if len(m.GetEnds()) == 0 {
			continue
		}
		if err := r.merge(names); err != nil {
			return err
		}
		names = nil
		for _, e := range m.GetEnds() {
			read, shardErr, err := o.findEnd(e)
			if err != nil {
				return err
			}
			r.end(o, read, shardErr)
		}
	}
}

// appendNames appends names that share the memory of one string.
func appendNames(names []string, list [][]byte) []string {
	text := string(bytes.Join(list, nil))
	for _, name := range list {
		names = append(names, text[:len(name)])
		text = text[len(name):]
	}
	return names
}

// merge adds names to those of other nodes.
func (r *nameRun) merge(names []string) error {
	r.merging.Lock()
	defer r.merging.Unlock()
	if !slices.IsSorted(names) { // of several messages
		slices.Sort(names)
	}
	all := mergeNames(r.names, names)
	if r.limit > 0 && len(all) > r.limit {
		all = all[:r.limit:r.limit]
	}
	r.names, r.bytes = all, 0
	for _, name := range all {
		r.bytes += int64(len(name)) + itemBytes
	}
	if most := r.cluster.options.Limits.ReadBytesMax; r.bytes > most {
		return &scan.LimitError{What: "bytes", Limit: most}
	}
	return nil
}

// mergeNames returns the names of two sorted lists, each once.
func mergeNames(a, b []string) []string {
	all := make([]string, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0] < a[0] {
			from = &b
		}
		name := (*from)[0]
		*from = (*from)[1:]
		if n := len(all); n == 0 || all[n-1] != name {
			all = append(all, name)
		}
	}
	return all
}
