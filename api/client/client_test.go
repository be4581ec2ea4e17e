package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/api/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts servers over one storage and returns a client of all of them.
func start(t *testing.T, storage *apitest.Storage, servers int, change func(*client.Options)) (*client.Client, []*apitest.Server) {
	t.Helper()
	var list []*apitest.Server
	o := client.Options{RetryDelayMin: time.Millisecond, RetryDelayMax: 20 * time.Millisecond}
	for range servers {
		s, err := apitest.Start(apitest.Options(storage), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		list = append(list, s)
		o.Endpoints = append(o.Endpoints, s.Address)
	}
	if change != nil {
		change(&o)
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, list
}

// waitMax bounds what a test waits for; no result depends on it.
const waitMax = time.Minute

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	t.Cleanup(cancel)
	return ctx
}

// everything selects all series of the default database.
func everything() scan.Selector { return scan.Selector{MetricAny: true} }

// samples returns all samples of the default database, by key and time.
func samples(ctx context.Context, t *testing.T, c *client.Client) map[string]map[int64]float64 {
	t.Helper()
	all := map[string]map[int64]float64{}
	for chunk, err := range c.Query(ctx, client.Query{Selector: everything(), FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}) {
		if err != nil {
			t.Fatal(err)
		}
		key := string(chunk.Series.Key())
		if all[key] == nil {
			all[key] = map[int64]float64{}
		}
		for i, ms := range chunk.TimesMs {
			all[key][ms] = chunk.Values[i]
		}
	}
	return all
}

func TestReach(t *testing.T) {
	c, servers := start(t, apitest.NewStorage(4), 2, func(o *client.Options) { o.CallTimeout = 2 * time.Second })
	servers[0].Kill()
	if err := c.Reach(t.Context()); err != nil {
		t.Fatalf("one of two answers: %v", err)
	}
	servers[1].Kill()
	none, err := client.New(client.Options{Endpoints: []string{servers[0].Address}, CallTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if err := none.Reach(t.Context()); !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("nobody answers: %v", err)
	}
}
