package build

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// What holds for databases, and who may do what with them, are files that the programs
// read again when they change.
const (
	volumeDatabases = "databases"
	volumeAuth      = "auth"
	volumeToken     = "token"
	dirDatabases    = "/etc/tickmesh/databases"
	dirAuth         = "/etc/tickmesh/auth"
	dirToken        = "/etc/tickmesh/token"
	databasesFile   = "databases.yaml"

	// KeyAuth is the key of the users in Secrets: in the one that the spec names, and in the
	// one that routers are given.
	KeyAuth = "auth.yaml"
	// KeyToken and KeyMetricsToken are the keys of the tokens in TokenSecret.
	KeyToken        = "token"
	KeyMetricsToken = "metrics"

	// userOperator may do everything: it is the operator, and the Jobs of backups.
	userOperator = "tickmesh-operator"
	// userMetrics may do nothing but read metrics.
	userMetrics = "tickmesh-metrics"
)

// DatabasesConfigMap makes the file with what holds for each database.
func DatabasesConfigMap(c *v1alpha1.TickMeshCluster) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(c, ComponentNode, c.Name+"-databases"),
		Data:       map[string]string{databasesFile: c.Spec.Databases},
	}
}

// ErrAuth marks a file of users that the operator cannot add its own to.
var ErrAuth = errors.New(KeyAuth)

// AuthFile returns the file of users with those of the operator and of Prometheus, of whose
// tokens it has the digests. Errors: ErrAuth.
func AuthFile(users []byte, operatorDigest, metricsDigest string) ([]byte, error) {
	file := map[string]any{}
	if err := yaml.UnmarshalStrict(users, &file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuth, err)
	}
	list, ok := file["users"].([]any)
	if !ok && file["users"] != nil {
		return nil, fmt.Errorf("%w: users is no list", ErrAuth)
	}
	for _, entry := range list {
		user, ok := entry.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%w: users has an entry that is no user", ErrAuth)
		}
		if name := user["name"]; name == userOperator || name == userMetrics {
			return nil, fmt.Errorf("%w: user %s is the operator's: choose another name", ErrAuth, name)
		}
	}
	add := func(name, digest, right string) {
		list = append(list, map[string]any{"name": name, "tokens": []any{digest}, "rights": map[string]any{"*": right}})
	}
	add(userOperator, operatorDigest, "admin")
	add(userMetrics, metricsDigest, "none")
	file["users"] = list
	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuth, err)
	}
	return text, nil
}

// addDatabases mounts the file with what holds for each database, once there is one.
func (p *pod) addDatabases(f Facts) {
	if f.Databases == "" {
		return
	}
	p.volumes = append(p.volumes, corev1.Volume{Name: volumeDatabases, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: f.Databases}, DefaultMode: ptr(int32(secretFileMode)),
	}}})
	p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeDatabases, dirDatabases))
	p.container.Args = append(p.container.Args, "--databases-file="+dirDatabases+"/"+databasesFile)
}

// addAuth mounts the file of users into routers. Without it they do not start: they would let
// everybody in.
func (p *pod) addAuth(c *v1alpha1.TickMeshCluster) {
	if !AuthEnabled(c) {
		return
	}
	p.addSecret(volumeAuth, AuthSecret(c), dirAuth)
	p.container.Args = append(p.container.Args, "--auth-file="+dirAuth+"/"+KeyAuth)
}

// envInsecureCredentials allows tokens without TLS.
const envInsecureCredentials = "TICKMESH_INSECURE_CREDENTIALS"

// addToken mounts the operator's token into a Job.
func (p *pod) addToken(access RouterAccess) {
	if access.TokenSecret == "" {
		return
	}
	volume := secretVolume(volumeToken, access.TokenSecret)
	volume.Secret.Items = []corev1.KeyToPath{{Key: KeyToken, Path: KeyToken}}
	p.volumes = append(p.volumes, volume)
	p.container.VolumeMounts = append(p.container.VolumeMounts, mount(volumeToken, dirToken))
	p.container.Args = append(p.container.Args, "--token-file="+dirToken+"/"+KeyToken)
	if access.CASecret == "" {
		// The resource has no TLS. In the environment, older images pass over it.
		p.container.Env = append(p.container.Env, corev1.EnvVar{Name: envInsecureCredentials, Value: "true"})
	}
}
