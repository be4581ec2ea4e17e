package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// ErrUnavailable reports that etcd did not answer in time, or has no majority.
var ErrUnavailable = errors.New("etcd does not answer")

const requestTimeout = 5 * time.Second

// A connection to a machine that has lost its power looks like one that is idle, and requests go to all connections in
// turn: without pings two dead ones of three take every second request for a quarter of an hour, and a pass of the
// operator makes two.
const (
	keepAliveTime    = 10 * time.Second // the least that gRPC has; etcd refuses pings more often than every 5 s
	keepAliveTimeout = 3 * time.Second  // bytes that nobody acknowledges for as long end a connection, too
)

// View is the state of etcd by its own account.
type View struct {
	ClusterID string // hexadecimal
	Members   []Member
}

// Admin changes members. It is safe for concurrent use; each call ends within a bounded
// time, with ErrUnavailable if etcd does not answer.
type Admin interface {
	// View returns the members, as of a majority.
	View(ctx context.Context) (View, error)
	// Add adds a learner; one that is there already is no error.
	Add(ctx context.Context, peerURL string) error
	// Remove removes a member; one that is not there is no error.
	Remove(ctx context.Context, id uint64) error
	// Promote makes a learner a voter. One that has not caught up yet is no error: it is
	// asked for again.
	Promote(ctx context.Context, id uint64) error
	// Close ends the connections.
	Close() error
}

// admin is an Admin over the network.
type admin struct{ client *clientv3.Client }

// Connect makes an Admin. It does not wait for etcd. Nil: without TLS.
func Connect(endpoints []string, secure *tls.Config) (Admin, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: secure, DialTimeout: requestTimeout, Logger: zap.NewNop(), // its errors are returned
		DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout, PermitWithoutStream: true,
		DialOptions: []grpc.DialOption{grpc.WithNoProxy()}, // etcd is inside, whatever the environment names for the internet
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return &admin{client}, nil
}

// View implements Admin.
func (a *admin) View(ctx context.Context) (View, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := a.client.MemberList(bounded)
	if err != nil {
		return View{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	view := View{ClusterID: strconv.FormatUint(list.Header.ClusterId, 16)}
	for _, m := range list.Members {
		member := Member{ID: m.ID, Name: m.Name, Learner: m.IsLearner}
		if len(m.PeerURLs) > 0 {
			member.PeerURL = m.PeerURLs[0]
		}
		if len(m.ClientURLs) > 0 && m.Name != "" {
			member.Healthy = a.healthy(ctx, m.ClientURLs[0])
		}
		view.Members = append(view.Members, member)
	}
	return view, nil
}

// healthy reports whether a member answers and follows a leader.
func (a *admin) healthy(ctx context.Context, endpoint string) bool {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status, err := a.client.Status(bounded, endpoint)
	return err == nil && status.Leader != 0 && len(status.Errors) == 0
}

// Add implements Admin.
func (a *admin) Add(ctx context.Context, peerURL string) error {
	return a.change(ctx, func(ctx context.Context) error {
		_, err := a.client.MemberAddAsLearner(ctx, []string{peerURL})
		return err
	}, rpctypes.ErrPeerURLExist, rpctypes.ErrMemberExist)
}

// Remove implements Admin.
func (a *admin) Remove(ctx context.Context, id uint64) error {
	return a.change(ctx, func(ctx context.Context) error {
		_, err := a.client.MemberRemove(ctx, id)
		return err
	}, rpctypes.ErrMemberNotFound)
}

// Promote implements Admin.
func (a *admin) Promote(ctx context.Context, id uint64) error {
	return a.change(ctx, func(ctx context.Context) error {
		_, err := a.client.MemberPromote(ctx, id)
		return err
	}, rpctypes.ErrMemberLearnerNotReady, rpctypes.ErrMemberNotLearner)
}

// change makes a change; the errors that are named say that there is nothing to do.
func (a *admin) change(ctx context.Context, call func(context.Context) error, done ...error) error {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := call(bounded)
	if err == nil {
		return nil
	}
	for _, is := range done {
		if errors.Is(err, is) {
			return nil
		}
	}
	return fmt.Errorf("change the members of etcd: %w", err)
}

// Close implements Admin.
func (a *admin) Close() error { return a.client.Close() }
