"""Access to API servers, tried against a real kube-apiserver and the dev cluster."""
