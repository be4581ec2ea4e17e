package backup

import (
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

func drawSchedule(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"* * * * *", "*/7 * * * *", "30 2 * * *", "0 3 * * 0", "15 1 1 * *", "@hourly", "@daily", "@weekly", "@monthly", "0 0 30 2 *", "0 0 29 2 *", "5 4 * 6 *",
	}).Draw(t, "schedule")
}

// TestSchedule lets time pass, backups end, and operators sleep: one backup at a time is
// made, the newest missed time is caught up with once, and as many are kept as should be.
func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0).UTC()
		s := &v1alpha1.TickMeshBackupSchedule{ObjectMeta: metav1.ObjectMeta{Name: "nightly", CreationTimestamp: metav1.NewTime(now)}}
		s.Spec.Schedule, s.Spec.Keep = drawSchedule(t), int32(rapid.IntRange(1, 3).Draw(t, "keep"))
		times, err := cron.ParseStandard(s.Spec.Schedule)
		if err != nil {
			t.Fatal(err)
		}
		var backups []v1alpha1.TickMeshBackup
		running, handled := -1, now // handled: all times up to it
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 10, 1500, 50_000}).Draw(t, "minutes")) * time.Minute)
			s.Spec.Suspend = rapid.IntRange(0, 6).Draw(t, "suspend") == 0
			rests := rapid.IntRange(0, 6).Draw(t, "rests") == 0
			if running >= 0 && rapid.Bool().Draw(t, "ends") {
				kind := rapid.SampledFrom([]string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed}).Draw(t, "how")
				st := &backups[running].Status
				meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "x"})
				st.FinishedAt = &metav1.Time{Time: now}
				running = -1
			}
			d := PlanSchedule(s, backups, ClusterState{Exists: true, Rests: rests}, now)
			next := times.Next(handled)
			due := !next.IsZero() && !next.After(now)
			if want := due && running < 0 && !s.Spec.Suspend && !rests; (d.Create != nil) != want {
				t.Fatalf("step %d at %v: %+v, due %v, running %d", n, now, d, due, running)
			}
			if d.Create != nil {
				handled = now
				d.Create.CreationTimestamp = metav1.NewTime(now)
				for i := range backups {
					if backups[i].Name == d.Create.Name {
						t.Fatal("made twice")
					}
				}
				backups, running = append(backups, *d.Create), len(backups)
			}
			for _, name := range d.Delete {
				for i := range backups {
					if backups[i].Name == name {
						backups = append(backups[:i], backups[i+1:]...)
						if running > i {
							running--
						}
						break
					}
				}
			}
			count := map[bool]int{}
			for i := range backups {
				if Ended(&backups[i].Status.JobStatus) {
					count[complete(&backups[i])]++
				}
			}
			if count[true] > int(s.Spec.Keep) || count[false] > int(s.Spec.Keep) {
				t.Fatalf("%v are kept of %d", count, s.Spec.Keep)
			}
			if running >= 0 && s.Status.Active != backups[running].Name {
				t.Fatalf("%+v", s.Status)
			}
		}
	})
}

// TestScheduleNames: the longest name of a schedule gives names that a backup may have.
func TestScheduleNames(t *testing.T) {
	const backupNameMax = 52
	s := &v1alpha1.TickMeshBackupSchedule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%040d", 1)}}
	if name := made(s, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)).Name; len(name) > backupNameMax {
		t.Error(name)
	}
}

func TestBadSchedules(t *testing.T) {
	for _, bad := range [][2]string{{"61 * * * *", ""}, {"* * *", ""}, {"@every 1h", ""}, {"@daily", "Mars/Olympus"}, {"@daily", "Local"}} {
		s := &v1alpha1.TickMeshBackupSchedule{}
		s.Spec.Schedule, s.Spec.TimeZone = bad[0], bad[1]
		d := PlanSchedule(s, nil, ClusterState{}, time.Now())
		if d.Create != nil || !meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionReady) {
			t.Errorf("%q: %+v %+v", bad, d, s.Status)
		}
	}
}
