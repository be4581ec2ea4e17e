package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/backup"
)

// emptyRootVariable is set in the process that TestSchedulesHaveTimeZones runs.
const emptyRootVariable = "TICKMESH_TEST_EMPTY_ROOT"

// The operator's image has no file but its program and some authorities, so what schedules
// say of time zones has to be known without /usr/share/zoneinfo. The test begins anew in a
// user namespace of its own, where it may change the root of a thread.
func TestSchedulesHaveTimeZones(t *testing.T) {
	root := os.Getenv(emptyRootVariable)
	if root == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSchedulesHaveTimeZones$", "-test.v")
		cmd.Env = []string{emptyRootVariable + "=" + t.TempDir()}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	runtime.LockOSThread() // and it ends with the test
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Chroot(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/share/zoneinfo"); !os.IsNotExist(err) {
		t.Fatal("the time zones of this machine can be seen: ", err)
	}
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	schedule := &v1alpha1.TickMeshBackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1alpha1.TickMeshBackupScheduleSpec{Schedule: "0 3 * * *", TimeZone: "Asia/Tokyo"},
	}
	backup.PlanSchedule(schedule, nil, backup.ClusterState{}, now)
	if next, want := schedule.Status.NextScheduledAt, time.Date(2026, 1, 5, 18, 0, 0, 0, time.UTC); next == nil || !next.Time.Equal(want) {
		t.Fatalf("3 o'clock in Tokyo comes at %v, want %v; %+v", next, want, schedule.Status.Conditions)
	}
}
