package build

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

const (
	volumeBackup  = "backup"
	volumeS3CA    = "s3-ca"
	volumeScratch = "scratch"
	volumeKeys    = "keys-" // and what the key does
	dirBackup     = "/backup"
	dirS3CA       = "/etc/tickmesh/s3"
	dirScratch    = "/scratch"
	dirKeys       = "/etc/tickmesh/keys"

	jobGraceSeconds = 60
	// jobRetries is how often a Job's pod is made anew. A backup goes on where it was.
	jobRetries = 6

	// EnvAccessKeyID and EnvSecretAccessKey have the keys of S3-compatible storage.
	EnvAccessKeyID     = "TICKMESH_S3_ACCESS_KEY_ID"
	EnvSecretAccessKey = "TICKMESH_S3_SECRET_ACCESS_KEY"

	// LabelBackup and LabelRestore of a Job name what it is of, and LabelOwner has its UID.
	LabelBackup  = v1alpha1.Group + "/backup"
	LabelRestore = v1alpha1.Group + "/restore"
	LabelOwner   = v1alpha1.Group + "/owner"

	// deletedSeconds is how long a Job is kept that nobody owns, and that has ended.
	deletedSeconds = 600
	// deleteSeconds is how long the deletion of data may take, which is begun again later.
	deleteSeconds = 24 * 60 * 60

	// ReportFile is where a Job's container writes, as JSON, what status has of it; it
	// becomes the termination message of the container.
	ReportFile = corev1.TerminationMessagePathDefault
)

// Place is where one backup is, and the Secrets of the keys that it is read with.
type Place struct {
	Target v1alpha1.BackupTarget
	// Position is the name of the backup in the target.
	Position string
	// IdentitySecret and VerifySecret have the keys to read it; empty: there are none.
	IdentitySecret, VerifySecret string
}

// PlaceOf returns where a backup of this namespace is.
func PlaceOf(b *v1alpha1.TickMeshBackup) Place {
	p := Place{Target: b.Spec.Target, Position: b.Name}
	if e := b.Spec.Encryption; e != nil {
		p.IdentitySecret = e.IdentitySecretName
	}
	if s := b.Spec.Signing; s != nil {
		p.VerifySecret = s.VerifySecretName
	}
	return p
}

// arguments name the place as the commands take it: the target, which is a folder of the
// pod or s3://bucket/prefix, and the name of the backup.
func (p Place) arguments() []string {
	target := dirBackup
	switch {
	case p.Target.S3 != nil:
		target = "s3://" + p.Target.S3.Bucket + "/" + p.Target.S3.Prefix
	case p.Target.Volume.Path != "":
		target += "/" + p.Target.Volume.Path
	}
	return []string{target, "--name=" + p.Position}
}

// job is what the Jobs of backups and restores differ in.
type job struct {
	name      string
	owner     Object
	ownerKind string
	args      []string
	place     Place
	sign      string // Secret of the key that signs
	reads     bool   // the place is only read
	connects  bool   // to the routers
	scratch   bool   // a server of its own is made
	ownerless bool   // it has to run while its owner is being deleted
	timeout   v1alpha1.Duration
	resources corev1.ResourceRequirements
	placement v1alpha1.Placement
}

// BackupJob makes the Job that writes a backup.
func BackupJob(c *v1alpha1.TickMeshCluster, f Facts, b *v1alpha1.TickMeshBackup) *batchv1.Job {
	j := backupJob(b, "backup")
	j.connects = true
	j.args = slices.Concat([]string{"backup"}, j.place.arguments(), accessArguments(c))
	if b.Spec.Incremental {
		j.args = append(j.args, "--incremental")
	}
	if e := b.Spec.Encryption; e != nil {
		for _, recipient := range e.Recipients {
			j.args = append(j.args, "--encrypt-to="+recipient)
		}
	}
	if s := b.Spec.Signing; s != nil {
		j.sign = s.SecretName
	}
	return j.build(c, f)
}

// VerifyJob makes the Job that restores a backup into an empty server of its own, and
// compares.
func VerifyJob(c *v1alpha1.TickMeshCluster, f Facts, b *v1alpha1.TickMeshBackup) *batchv1.Job {
	j := backupJob(b, "verify")
	j.args = slices.Concat([]string{"backup", "verify"}, j.place.arguments(), []string{"--restore=" + dirScratch})
	j.reads, j.scratch = true, true
	return j.build(c, f)
}

// DeleteJob makes the Job that deletes the data of a backup, which is not being written
// any more. The backup is no owner of it: else Kubernetes would delete the Job first when
// the backup is deleted with all that it owns.
func DeleteJob(c *v1alpha1.TickMeshCluster, f Facts, b *v1alpha1.TickMeshBackup) *batchv1.Job {
	j := backupJob(b, "delete")
	j.args = slices.Concat([]string{"backup", "prune"}, j.place.arguments(), []string{"--running"})
	j.ownerless, j.timeout = true, ""
	// A target may have backups of other keys, and one without a signature holds no other
	// backup's data back.
	j.place.VerifySecret = ""
	return j.build(c, f)
}

func backupJob(b *v1alpha1.TickMeshBackup, action string) *job {
	return &job{
		name: b.Name + "-" + action, owner: b, ownerKind: v1alpha1.KindBackup, place: PlaceOf(b),
		timeout: b.Spec.Timeout, resources: b.Spec.Resources, placement: b.Spec.Placement,
	}
}

// RestoreJob makes the Job that writes a backup into a cluster.
func RestoreJob(c *v1alpha1.TickMeshCluster, f Facts, r *v1alpha1.TickMeshRestore, from Place) *batchv1.Job {
	j := restoreJob(r, "restore", from)
	j.args = slices.Concat([]string{"restore"}, from.arguments(), accessArguments(c))
	return j.build(c, f)
}

// CompareJob makes the Job that compares a cluster with a backup.
func CompareJob(c *v1alpha1.TickMeshCluster, f Facts, r *v1alpha1.TickMeshRestore, from Place) *batchv1.Job {
	j := restoreJob(r, "compare", from)
	j.args = slices.Concat([]string{"restore", "--verify"}, from.arguments(), accessArguments(c))
	return j.build(c, f)
}

func restoreJob(r *v1alpha1.TickMeshRestore, action string, from Place) *job {
	return &job{
		name: r.Name + "-" + action, owner: r, ownerKind: v1alpha1.KindRestore, place: from, reads: true, connects: true,
		timeout: r.Spec.Timeout, resources: r.Spec.Resources, placement: r.Spec.Placement,
	}
}

// accessArguments say how the routers are reached.
func accessArguments(c *v1alpha1.TickMeshCluster) []string {
	access := AccessRouters(c)
	args := []string{"--addr=" + access.Address}
	if access.CASecret != "" {
		args = append(args, "--tls", "--tls-ca="+dirTLS+"/"+keyCA)
	}
	return args
}

func (j *job) build(c *v1alpha1.TickMeshCluster, f Facts) *batchv1.Job {
	p := pod{
		component: ComponentBackup, placement: j.placement, graceSecs: jobGraceSeconds,
		spread: spread{topologyKey: c.Spec.Nodes.Zones.TopologyKey},
		container: corev1.Container{
			Args: append(j.args, "--report="+ReportFile), Resources: j.resources,
		},
	}
	if j.connects {
		p.addToken(AccessRouters(c))
	}
	if access := AccessRouters(c); j.connects && access.CASecret != "" {
		volume := secretVolume(volumeTLS, access.CASecret)
		volume.Secret.Items = []corev1.KeyToPath{{Key: keyCA, Path: keyCA}} // not the key
		p.volumes = append(p.volumes, volume)
		p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeTLS, dirTLS))
	}
	p.addTarget(j.place.Target, j.reads)
	p.addKey("identity", j.place.IdentitySecret, keyIdentities)
	p.addKey("sign-key", j.sign, keySigning)
	p.addKey("verify-key", j.place.VerifySecret, keyVerify)
	if j.scratch {
		p.volumes = append(p.volumes, corev1.Volume{Name: volumeScratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		p.container.VolumeMounts = append(p.container.VolumeMounts, corev1.VolumeMount{Name: volumeScratch, MountPath: dirScratch})
	}
	template := p.template(c, f)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	m := meta(c, ComponentBackup, j.name)
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j.owner, v1alpha1.GroupVersion().WithKind(j.ownerKind))}
	m.Labels = maps.Clone(m.Labels)
	m.Labels[labelOf(j.ownerKind)], m.Labels[LabelOwner] = j.owner.GetName(), string(j.owner.GetUID())
	made := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: m,
		Spec:       batchv1.JobSpec{BackoffLimit: ptr(int32(jobRetries)), ActiveDeadlineSeconds: ptr(j.deadlineSeconds()), Template: template},
	}
	if j.ownerless {
		made.OwnerReferences, made.Spec.TTLSecondsAfterFinished = nil, ptr(int32(deletedSeconds))
	}
	return made
}

// deadlineSeconds returns how long the Job may take, over all of its pods.
func (j *job) deadlineSeconds() int64 {
	timeout, err := j.timeout.Parse()
	if err != nil || timeout <= 0 {
		return deleteSeconds // it is none of a user's
	}
	return int64(timeout.Seconds())
}

// labelOf returns the label with the backup or restore that a Job is of.
func labelOf(kind string) string {
	if kind == v1alpha1.KindRestore {
		return LabelRestore
	}
	return LabelBackup
}

// addKey mounts one key of a Secret and names its file by a flag; no Secret: nothing.
func (p *pod) addKey(flag, secret, key string) {
	if secret == "" {
		return
	}
	volume := secretVolume(volumeKeys+flag, secret)
	volume.Secret.Items = []corev1.KeyToPath{{Key: key, Path: key}} // a Secret may have more than this Job needs
	p.volumes = append(p.volumes, volume)
	p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeKeys+flag, dirKeys+"/"+flag))
	p.container.Args = append(p.container.Args, "--"+flag+"="+dirKeys+"/"+flag+"/"+key)
}

// addTarget adds to a pod what it needs to reach a target.
func (p *pod) addTarget(t v1alpha1.BackupTarget, reads bool) {
	if v := t.Volume; v != nil {
		p.volumes = append(p.volumes, corev1.Volume{Name: volumeBackup, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.ClaimName, ReadOnly: reads},
		}})
		p.container.VolumeMounts = append(p.container.VolumeMounts, corev1.VolumeMount{Name: volumeBackup, MountPath: dirBackup, ReadOnly: reads})
		return
	}
	s3 := t.S3
	p.container.Args = append(p.container.Args, "--s3-endpoint="+s3.Endpoint)
	if s3.Region != "" {
		p.container.Args = append(p.container.Args, "--s3-region="+s3.Region)
	}
	if s3.CASecretName != "" {
		volume := secretVolume(volumeS3CA, s3.CASecretName)
		volume.Secret.Items = []corev1.KeyToPath{{Key: keyCA, Path: keyCA}}
		p.volumes = append(p.volumes, volume)
		p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeS3CA, dirS3CA))
		p.container.Args = append(p.container.Args, "--s3-ca="+dirS3CA+"/"+keyCA)
	}
	fromSecret := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: s3.SecretName}, Key: key},
		}}
	}
	p.container.Env = append(p.container.Env, fromSecret(EnvAccessKeyID, keyAccessKeyID), fromSecret(EnvSecretAccessKey, keySecretAccessKey))
}
