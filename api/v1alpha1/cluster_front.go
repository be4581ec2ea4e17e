package v1alpha1

import corev1 "k8s.io/api/core/v1"

// RoutersSpec describes the routers.
type RoutersSpec struct {
	// How many; not used with autoscaling. Default: 2.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	Count int32 `json:"count,omitempty"`
	// Let their number follow their load.
	// +optional
	Autoscaling *AutoscalingSpec `json:"autoscaling,omitempty"`
	// Name of a Secret with the key mqtt.yaml, which says what brokers of MQTT, and which of their topics, are read, and with the files
	// of passwords and certificates that it names, at /etc/tickmesh/mqtt. Routers take a change of it without a restart, and
	// share what they subscribe to. Empty: none are read.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	MQTTSecretName string `json:"mqttSecretName,omitempty"`
	// Processor and memory of each router. Default: requests of 100m and 256Mi, a limit of 640Mi.
	// +kubebuilder:default={requests: {cpu: "100m", memory: "256Mi"}, limits: {memory: "640Mi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Where the pods of routers may run.
	// +optional
	Placement Placement `json:"placement,omitzero"`
	// Additions to the pods of routers. A change replaces them.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// AutoscalingSpec bounds a number of pods that follows their load.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="autoscaling.min cannot be more than autoscaling.max: raise max, or lower min"
type AutoscalingSpec struct {
	// Least number. Default: 2.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	Min int32 `json:"min,omitempty"`
	// Greatest number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Max int32 `json:"max"`
	// Processor time, in percent of what is requested, that the number is kept near. Default: 70.
	// +kubebuilder:default=70
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	CPUPercent int32 `json:"cpuPercent,omitempty"`
}

// EnvoySpec describes Envoy before the routers.
type EnvoySpec struct {
	// Put Envoy before the routers; otherwise clients connect to the routers. Default: true.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// Image of Envoy. Empty: the one that the operator was tested with.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`
	// How many. Default: 2.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Connections of clients to one Envoy, on all ports together. Default: 10000.
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	ConnectionsMax int32 `json:"connectionsMax,omitempty"`
	// Write a line for each request and connection to standard output. Default: false.
	// +optional
	AccessLog bool `json:"accessLog,omitempty"`
	// Processor and memory of each pod. Default: requests of 100m and 64Mi, a limit of 256Mi.
	// +kubebuilder:default={requests: {cpu: "100m", memory: "64Mi"}, limits: {memory: "256Mi"}}
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Where the pods of Envoy may run.
	// +optional
	Placement Placement `json:"placement,omitzero"`
	// Additions to the pods of Envoy. A change replaces them.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
}

// ServiceSpec describes the Service that clients use, with the ports line (6180), put
// (6181), http (6182) and grpc (6183).
//
// +kubebuilder:validation:XValidation:rule="self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && !has(self.loadBalancerIP) && !has(self.loadBalancerSourceRanges))",message="loadBalancerClass, loadBalancerIP and loadBalancerSourceRanges need service.type LoadBalancer: set it, or leave them out"
type ServiceSpec struct {
	// ClusterIP: from within Kubernetes only; NodePort: at a port of each machine;
	// LoadBalancer: at an address of its own (on k3s: of the machines). Default: ClusterIP.
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`
	// Annotations of the Service, as load balancers want them.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Load balancer that is to serve it; empty: the default one.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`
	// Address that the load balancer is asked for.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	LoadBalancerIP string `json:"loadBalancerIP,omitempty"`
	// Networks of clients that the load balancer lets in; empty: all.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// Cluster: any machine takes connections; Local: only machines with a pod behind it, and
	// the addresses of clients are kept. Default: Cluster.
	// +kubebuilder:default=Cluster
	// +kubebuilder:validation:Enum=Cluster;Local
	// +optional
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// Names by which clients ask over HTTP, beside addresses, names of Kubernetes, those of
	// tls.hosts, those that the load balancer tells, and those of the annotation
	// external-dns.alpha.kubernetes.io/hostname. *.example.com stands for all names below it,
	// * for any, which lets pages of strangers pretend to be the cluster (DNS rebinding). Other
	// names are answered 421. A change restarts the routers.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*|(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)$`
	// +listType=set
	// +optional
	Hosts []string `json:"hosts,omitempty"`
	// Encrypt the connections of clients, on all ports; not set: they are not.
	// +optional
	TLS *ServiceTLS `json:"tls,omitempty"`
}

// ServiceTLS is what the connections of clients are encrypted with, as far as the
// routers.
type ServiceTLS struct {
	// Secret with tls.crt and tls.key; empty: one is made, as spec.tls.mode says, for the
	// names of the Service in Kubernetes and those in hosts. Without Envoy it must also
	// have ca.crt, and be valid for <name>.<namespace>.svc, as the operator connects there.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// Names and addresses that a certificate that is made is valid for, beside those of the
	// Service.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^((\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|[0-9a-f]*:[0-9a-f:.]*)$`
	// +listType=set
	// +optional
	Hosts []string `json:"hosts,omitempty"`
	// Secret whose ca.crt has the CAs of clients, which then must show a
	// certificate; empty: clients need none. Needs Envoy.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClientCASecretName string `json:"clientCASecretName,omitempty"`
}
