package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Options configure a store.
type Options struct {
	Endpoints []string // host:port, with a scheme if need be
	Cluster   string   // name of the cluster
	// Credentials are for TLS, which is then used with every endpoint; they may follow
	// files that are rotated. Nil: without.
	Credentials credentials.TransportCredentials
	Seen        shardmap.Seen // the newest map that was seen in an earlier life

	LeaseTTL       time.Duration // a node or leader that is silent for so long is gone; 0: LeaseTTLDefault; whole seconds
	RequestTimeout time.Duration // after which a call ends with ErrUnavailable; 0: RequestTimeoutDefault
	ProbeInterval  time.Duration // between questions of a watch to etcd; 0: ProbeIntervalDefault
}

// Defaults of Options.
const (
	LeaseTTLDefault       = 10 * time.Second
	RequestTimeoutDefault = 5 * time.Second
	ProbeIntervalDefault  = 3 * time.Second
)

const (
	keepAliveTime    = 10 * time.Second // of a connection; etcd refuses pings more often than every 5 s
	keepAliveTimeout = 5 * time.Second
	transactionTries = 16 // of read, compare and write, when others write the same key
)

// ErrOptions marks options with which no store can work.
var ErrOptions = errors.New("bad options of the placement store")

// Store is a connection to etcd.
type Store struct {
	options Options
	keys    keys
	fault   lastFault
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // watches and leases
	mu      struct {
		sync.Mutex
		client *clientv3.Client // nil until it could be made
		closed bool
		seen   shardmap.Seen
		last   shardmap.View // the last good one
	}
}

var _ shardmap.Store = (*Store)(nil)

// Open makes a store. It does not wait for etcd, which may be away. Errors: ErrOptions.
func Open(o Options) (*Store, error) {
	switch {
	case len(o.Endpoints) == 0:
		return nil, fmt.Errorf("%w: no endpoint", ErrOptions)
	case !shardmap.ValidName(o.Cluster):
		return nil, fmt.Errorf("%w: cluster %q", ErrOptions, o.Cluster)
	}
	for _, endpoint := range o.Endpoints {
		switch {
		case o.Credentials != nil && strings.HasPrefix(endpoint, "http://"):
			return nil, fmt.Errorf("%w: endpoint %s is without TLS, but there are credentials", ErrOptions, endpoint)
		case o.Credentials == nil && strings.HasPrefix(endpoint, "https://"):
			return nil, fmt.Errorf("%w: endpoint %s is with TLS, but there are no credentials", ErrOptions, endpoint)
		}
	}
	o.LeaseTTL = orDefault(o.LeaseTTL, LeaseTTLDefault)
	o.RequestTimeout = orDefault(o.RequestTimeout, RequestTimeoutDefault)
	o.ProbeInterval = orDefault(o.ProbeInterval, ProbeIntervalDefault)
	s := &Store{options: o, keys: keysOf(o.Cluster)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.seen = o.Seen
	return s, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// client returns the connection. Making one with a password asks etcd, so it may fail.
func (s *Store) client() (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, shardmap.ErrClosed
	}
	if s.mu.client != nil {
		return s.mu.client, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: s.options.Endpoints, DialOptions: s.fault.options(s.options.Credentials),
		DialTimeout: s.options.RequestTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		Logger: zap.NewNop(), // its errors are returned, and told by those who asked
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", shardmap.ErrUnavailable, err)
	}
	s.mu.client = client
	return client, nil
}

// request runs one call with a bounded time.
func (s *Store) request(ctx context.Context, call func(context.Context, *clientv3.Client) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.options.RequestTimeout)
	defer cancel()
	err = call(bounded, client)
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return shardmap.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	for _, own := range []error{shardmap.ErrConflict, shardmap.ErrNodeHeld, shardmap.ErrRetired, shardmap.ErrNode,
		shardmap.ErrMap, shardmap.ErrFormat, shardmap.ErrWrongCluster, shardmap.ErrRolledBack, shardmap.ErrDatabases,
		shardmap.ErrTokens, shardmap.ErrTokenChanged, shardmap.ErrQueries, shardmap.ErrQueryChanged, shardmap.ErrMetadataChanged} {
		if errors.Is(err, own) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", shardmap.ErrUnavailable, s.fault.explain(err))
}

// Seen returns the newest map that this store has seen.
func (s *Store) Seen() shardmap.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.seen
}

// saw remembers a good view.
func (s *Store) saw(view shardmap.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last = view
	s.sawMapLocked(view.Map)
}

func (s *Store) sawMapLocked(m *shardmap.Map) {
	if m != nil && m.Epoch > s.mu.seen.Epoch {
		s.mu.seen = shardmap.Seen{ClusterID: m.ID, Epoch: m.Epoch}
	}
}

// lastWith returns the last good view, marked with an error.
func (s *Store) lastWith(err error) shardmap.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := s.mu.last
	view.Err = err
	return view
}

// Load implements shardmap.Store.
func (s *Store) Load(ctx context.Context) (shardmap.View, error) {
	seen := s.Seen() // before the request: another of ours may swap meanwhile
	all := contents{}
	err := s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := all.load(ctx, client, s.keys)
		return err
	})
	if err != nil {
		return s.lastWith(err), err
	}
	view := all.view()
	if view.Err == nil {
		view.Err = seen.Check(view.Map)
	}
	if view.Err != nil {
		return s.lastWith(view.Err), view.Err
	}
	s.saw(view)
	return view, nil
}

// CompareAndSwap implements shardmap.Store.
func (s *Store) CompareAndSwap(ctx context.Context, epoch uint64, next shardmap.Map) error {
	encoded, err := next.Encode()
	if err != nil {
		return err
	}
	if next.Epoch <= epoch {
		return fmt.Errorf("%w: epoch %d after %d", shardmap.ErrMap, next.Epoch, epoch)
	}
	if next.Cluster != s.options.Cluster {
		return fmt.Errorf("%w: %s, not %s", shardmap.ErrWrongCluster, next.Cluster, s.options.Cluster)
	}
	if err := s.Seen().CheckSwap(next); err != nil {
		return err
	}
	err = s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		return s.swap(ctx, client, epoch, next.ID, encoded)
	})
	if err == nil {
		s.mu.Lock()
		s.sawMapLocked(&next)
		s.mu.Unlock()
	}
	return err
}

func (s *Store) swap(ctx context.Context, client *clientv3.Client, epoch uint64, id string, encoded []byte) error {
	got, err := client.Get(ctx, s.keys.shardMap())
	if err != nil {
		return err
	}
	is, revision := uint64(0), int64(0)
	if len(got.Kvs) > 0 {
		present, err := shardmap.Decode(got.Kvs[0].Value)
		if err != nil {
			return err
		}
		if present.ID != id {
			return shardmap.ErrWrongCluster
		}
		is, revision = present.Epoch, got.Kvs[0].ModRevision
	}
	if is != epoch {
		return fmt.Errorf("%w: epoch %d, not %d", shardmap.ErrConflict, is, epoch)
	}
	done, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.keys.shardMap()), "=", revision)).
		Then(clientv3.OpPut(s.keys.shardMap(), string(encoded))).Commit()
	if err != nil {
		return err
	}
	if !done.Succeeded {
		return fmt.Errorf("%w: after epoch %d", shardmap.ErrConflict, epoch)
	}
	return nil
}

// SetDesired implements shardmap.Store.
func (s *Store) SetDesired(ctx context.Context, node string, desired shardmap.Desired) error {
	if !shardmap.ValidName(node) || desired != "" && !desired.Valid() {
		return fmt.Errorf("%w: id %q, desired %q", shardmap.ErrNode, node, desired)
	}
	return s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if desired == "" {
			_, err := client.Delete(ctx, s.keys.desired(node))
			return err
		}
		_, err := client.Put(ctx, s.keys.desired(node), string(desired))
		return err
	})
}

// SetManager implements shardmap.Store.
func (s *Store) SetManager(ctx context.Context, manager string) error {
	if err := shardmap.ValidateManager(manager); err != nil {
		return err
	}
	return s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		if manager == "" {
			_, err := client.Delete(ctx, s.keys.manager())
			return err
		}
		_, err := client.Put(ctx, s.keys.manager(), manager)
		return err
	})
}

// SetDatabase implements shardmap.Store.
func (s *Store) SetDatabase(ctx context.Context, name string, mark shardmap.DatabaseMark) error {
	if err := shardmap.ValidateDatabase(name, mark); err != nil {
		return err
	}
	return s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		key := s.keys.database(name)
		if mark == "" {
			_, err := client.Delete(ctx, key)
			return err
		}
		old, err := client.Get(ctx, key)
		if err != nil {
			return err
		}
		if len(old.Kvs) == 0 {
			if err := checkRoom(ctx, client, s.keys.databases(), shardmap.DatabasesMax, shardmap.ErrDatabases); err != nil {
				return err
			}
		}
		_, err = client.Put(ctx, key, string(mark))
		return err
	})
}

// SwapToken implements shardmap.Store.
func (s *Store) SwapToken(ctx context.Context, id, old, next string) error {
	if err := shardmap.ValidateToken(id, next); err != nil {
		return err
	}
	return s.swapRecord(ctx, recordSwap{s.keys.token(id), old, next, s.keys.tokens(), shardmap.TokensMax, shardmap.ErrTokens, shardmap.ErrTokenChanged})
}

// SwapQuery implements shardmap.Store.
func (s *Store) SwapQuery(ctx context.Context, id, old, next string) error {
	if err := shardmap.ValidateQuery(id, next); err != nil {
		return err
	}
	return s.swapRecord(ctx, recordSwap{s.keys.query(id), old, next, s.keys.queries(), shardmap.QueriesMax, shardmap.ErrQueries, shardmap.ErrQueryChanged})
}

// recordSwap replaces the value of a key, where "" stands for no key.
type recordSwap struct {
	key, old, next      string
	prefix              string // of the keys that are bounded
	most                int64
	errFull, errChanged error
}

func (s *Store) swapRecord(ctx context.Context, r recordSwap) error {
	return s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		unchanged, change := clientv3.Compare(clientv3.Value(r.key), "=", r.old), clientv3.OpPut(r.key, r.next)
		if r.old == "" {
			unchanged = clientv3.Compare(clientv3.CreateRevision(r.key), "=", 0)
			if err := checkRoom(ctx, client, r.prefix, r.most, r.errFull); err != nil {
				return err
			}
		}
		if r.next == "" {
			change = clientv3.OpDelete(r.key)
		}
		done, err := client.Txn(ctx).If(unchanged).Then(change).Commit()
		if err == nil && !done.Succeeded {
			return r.errChanged
		}
		return err
	})
}

// SwapTokens implements shardmap.Store. Each swap is a transaction in that of the change.
func (s *Store) SwapTokens(ctx context.Context, swaps []shardmap.TokenSwap) error {
	if err := shardmap.ValidateTokenSwaps(swaps); err != nil {
		return err
	}
	if len(swaps) == 0 {
		return nil
	}
	operations := make([]clientv3.Op, len(swaps))
	for i, swap := range swaps {
		key := s.keys.token(swap.ID)
		change := clientv3.OpPut(key, swap.Next)
		if swap.Next == "" {
			change = clientv3.OpDelete(key)
		}
		operations[i] = clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", swap.Old)}, []clientv3.Op{change}, nil)
	}
	return s.request(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Txn(ctx).Then(operations...).Commit()
		return err
	})
}

// checkRoom returns errFull when there are as many keys below a prefix as there may be.
func checkRoom(ctx context.Context, client *clientv3.Client, prefix string, most int64, errFull error) error {
	all, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err == nil && all.Count >= most {
		return errFull
	}
	return err
}

// Close implements shardmap.Store. It takes leases back where etcd answers at once.
func (s *Store) Close() error {
	s.mu.Lock()
	closed, client := s.mu.closed, s.mu.client
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.cancel()
	s.running.Wait()
	if client == nil {
		return nil
	}
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}
