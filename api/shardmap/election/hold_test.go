package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// leadership is won, and lost when lost is closed.
type leadership struct {
	lost     chan struct{}
	resigned *int
}

func (l leadership) Lost() <-chan struct{} { return l.lost }
func (l leadership) Resign(context.Context) error {
	*l.resigned++
	return nil
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		campaigns, resigned, running, terms := 0, 0, 0, 0
		lost := make(chan struct{})
		early := true
		campaign := func(context.Context) (shardmap.Leadership, error) {
			switch campaigns++; campaigns {
			case 1:
				return nil, errors.New("not now")
			case 5:
				return nil, shardmap.ErrClosed
			}
			return leadership{lost, &resigned}, nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Hold(ctx, campaign, func(term context.Context) {
				if running++; running != 1 {
					t.Error("two terms at once")
				}
				defer func() { running-- }()
				if terms++; early {
					early = false
					return
				}
				<-term.Done()
			})
		}()
		synctest.Wait()
		if campaigns != 1 || terms != 0 {
			t.Fatal("a campaign that failed is repeated at once")
		}
		time.Sleep(campaignDelay + 1)
		synctest.Wait()
		if campaigns != 3 || terms != 2 || resigned != 1 || running != 1 {
			t.Fatal("work that returns leaves the election: ", campaigns, terms, resigned)
		}
		old := lost
		lost = make(chan struct{})
		close(old)
		synctest.Wait()
		if terms != 3 || running != 1 || resigned != 2 {
			t.Fatal("a term that is lost ends: ", terms, running)
		}
		close(lost)
		<-ended // the store is closed
		if running != 0 || campaigns != 5 {
			t.Fatal(running, campaigns)
		}
		cancel()
		Hold(ctx, nil, func(ctx context.Context) {
			if terms++; ctx.Err() == nil {
				t.Error("another context")
			}
		})
		if terms != 4 {
			t.Error("who is always elected does not work")
		}
	})
}
