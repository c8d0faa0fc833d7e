#!/bin/sh
# certificates.sh FOLDER: creates a certificate authority, one certificate for all parts of a cluster, and the settings for Dask.
# Anybody who has FOLDER/key.pem can join the cluster and run programs on its machines, so protect it like a password.
set -eu
umask 077
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$folder"
openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/CN=tilewright cluster authority" -keyout ca-key.pem -out ca.pem 2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj "/CN=tilewright cluster" -keyout key.pem -out request.pem 2>/dev/null
openssl x509 -req -days 365 -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out cert.pem 2>/dev/null
rm request.pem
{
  echo "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True"
  echo "export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$folder/ca.pem"
  for part in CLIENT SCHEDULER WORKER; do
    echo "export DASK_DISTRIBUTED__COMM__TLS__${part}__CERT=$folder/cert.pem"
    echo "export DASK_DISTRIBUTED__COMM__TLS__${part}__KEY=$folder/key.pem"
  done
} > environment
echo "in every shell of the cluster: . $folder/environment"
