package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// leadership is won, and lost when lost is closed.
type leadership struct {
	lost     chan struct{}
	resigned *atomic.Int32
}

func (l leadership) Lost() <-chan struct{} { return l.lost }
func (l leadership) Resign(context.Context) error {
	l.resigned.Add(1)
	return nil
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var campaigns, resigned, running, terms atomic.Int32
		lost := make(chan chan struct{}, 3) // of the terms
		campaign := func(context.Context) (shardmap.Leadership, error) {
			switch campaigns.Add(1) {
			case 1:
				return nil, errors.New("not now")
			case 5:
				return nil, shardmap.ErrClosed
			}
			l := leadership{make(chan struct{}), &resigned}
			lost <- l.lost
			return l, nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Hold(ctx, campaign, func(term context.Context) {
				if running.Add(1) != 1 {
					t.Error("two terms at once")
				}
				defer running.Add(-1)
				if terms.Add(1) > 1 {
					<-term.Done()
				}
			})
		}()
		expect := func(what string, wantCampaigns, wantTerms, wantResigned, wantRunning int32) {
			t.Helper()
			synctest.Wait()
			if c, n, r, w := campaigns.Load(), terms.Load(), resigned.Load(), running.Load(); c != wantCampaigns || n != wantTerms || r != wantResigned || w != wantRunning {
				t.Fatalf("%s: %d campaigns, %d terms, %d resigned, %d running", what, c, n, r, w)
			}
		}
		expect("a campaign that failed is not repeated at once", 1, 0, 0, 0)
		time.Sleep(campaignDelay + 1)
		expect("work that returns leaves the election", 3, 2, 1, 1)
		<-lost
		close(<-lost)
		expect("a term that is lost ends", 4, 3, 2, 1)
		close(<-lost)
		<-ended
		expect("the store is closed", 5, 3, 3, 0)
		Hold(ctx, nil, func(own context.Context) {
			if terms.Add(1); own != ctx {
				t.Error("another context")
			}
		})
		expect("who is always elected works", 5, 4, 3, 0)
	})
}
