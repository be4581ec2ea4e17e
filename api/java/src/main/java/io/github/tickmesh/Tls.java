package io.github.tickmesh;

import java.nio.file.Path;

/** Which servers are trusted, and what is shown to those that ask who calls. */
public final class Tls {
  private final Path ca; // null: the CAs of Java
  private final Path certificate;
  private final Path key;

  private Tls(Path ca, Path certificate, Path key) {
    this.ca = ca;
    this.certificate = certificate;
    this.key = key;
  }

  /** Trusts servers that the CAs of Java vouch for. */
  public static Tls system() {
    return new Tls(null, null, null);
  }

  /** Trusts servers that the CAs of a PEM file vouch for. */
  public static Tls ofCa(Path ca) {
    return new Tls(ca, null, null);
  }

  /** Shows a certificate, from PEM files. */
  public Tls withCertificate(Path certificate, Path key) {
    return new Tls(ca, certificate, key);
  }

  io.grpc.ChannelCredentials credentials() {
    try {
      var credentials = io.grpc.TlsChannelCredentials.newBuilder();
      if (ca != null) {
        credentials.trustManager(ca.toFile());
      }
      if (certificate != null) {
        credentials.keyManager(certificate.toFile(), key.toFile());
      }
      return credentials.build();
    } catch (java.io.IOException e) {
      throw new TickmeshException(TickmeshException.Kind.OPTIONS, "tls: " + e, e);
    }
  }
}
