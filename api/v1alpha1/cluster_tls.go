package v1alpha1

// TLSMode is where the certificates of the connections inside a cluster come from.
//
// +kubebuilder:validation:Enum=Operator;CertManager;Secrets;Off
type TLSMode string

// Values of TLSMode.
const (
	TLSModeOperator    TLSMode = "Operator"    // the operator makes and renews them
	TLSModeCertManager TLSMode = "CertManager" // cert-manager does
	TLSModeSecrets     TLSMode = "Secrets"     // somebody else keeps the Secrets
	TLSModeOff         TLSMode = "Off"         // connections are not encrypted
)

// CertificateNames is whether certificates have to name their process.
//
// +kubebuilder:validation:Enum=Required;Optional
type CertificateNames string

// Values of CertificateNames.
const (
	CertificateNamesRequired CertificateNames = "Required" // one without a name opens nothing
	CertificateNamesOptional CertificateNames = "Optional" // one without a name opens everything
)

// TLSSpec is where the certificates of the connections between nodes, routers, etcd
// and the operator come from.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'CertManager' || has(self.issuerRef)",message="tls.mode CertManager needs tls.issuerRef: name an Issuer or ClusterIssuer that is a certificate authority"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Secrets' || has(self.secretNames)",message="tls.mode Secrets needs tls.secretNames: name the Secrets with tls.crt, tls.key and ca.crt"
// +kubebuilder:validation:XValidation:rule="!has(self.names) || self.mode == 'CertManager' || self.mode == 'Secrets'",message="tls.names is for tls.mode CertManager and Secrets: the certificates that the operator makes always have names"
// +kubebuilder:validation:XValidation:rule="!has(self.names) || self.names != 'Required' || !has(self.secretNames) || self.secretNames.node != self.secretNames.router",message="with tls.names Required a certificate names one role: name different Secrets in tls.secretNames.node and tls.secretNames.router"
type TLSSpec struct {
	// Operator: made and renewed by the operator; CertManager: by cert-manager; Secrets: by
	// somebody else; Off: no encryption. Cannot be changed. Default: Operator.
	// +kubebuilder:default=Operator
	// +optional
	Mode TLSMode `json:"mode,omitempty"`
	// Issuer of cert-manager; with mode CertManager.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`
	// Required: nodes and routers take no certificate that does not name its process, as the
	// URI tickmesh://CLUSTER/node/* or tickmesh://CLUSTER/router, where CLUSTER is the name that
	// the shard map is kept under. Optional: any certificate of the same CA without a name
	// may do everything. With modes CertManager and Secrets. Default: Required, but in clusters
	// that an older operator has made. A change restarts the nodes one at a time, and waits until
	// the certificates have the names.
	// +optional
	Names CertificateNames `json:"names,omitempty"`
	// Secrets to use; with mode Secrets.
	// +optional
	SecretNames *TLSSecretNames `json:"secretNames,omitempty"`
}

// IssuerReference names an issuer of cert-manager, which must be a certificate
// CA, as both sides show certificates of it.
type IssuerReference struct {
	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Issuer or ClusterIssuer, or the kind of another group. Default: Issuer.
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Kind string `json:"kind,omitempty"`
	// Its group. Default: cert-manager.io.
	// +kubebuilder:default="cert-manager.io"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
}

// TLSSecretNames name Secrets with tls.crt, tls.key and ca.crt. One may be named
// several times.
type TLSSecretNames struct {
	// Of the nodes; for *.<name>-node.<namespace>.svc, as server and client, with the URI
	// tickmesh://<name>/node/*.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Of the routers; for <name>-router.<namespace>.svc, as server and client, with the URI
	// tickmesh://<name>/router.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Router string `json:"router"`
	// Of the members of a managed etcd; for *.<name>-etcd.<namespace>.svc, as server and client.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Etcd string `json:"etcd,omitempty"`
	// Of the operator and of backups, as client.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Operator string `json:"operator"`
}
