package io.github.tickmesh;

import java.nio.file.Path;

/** The CAs of servers that are trusted, and the certificate of this client. It is immutable. */
public final class Tls {
  private final Path ca; // null: the CAs of Java
  private final Path certificate;
  private final Path key;

  private Tls(Path ca, Path certificate, Path key) {
    this.ca = ca;
    this.certificate = certificate;
    this.key = key;
  }

  /** Trusts the CAs of the Java runtime. */
  public static Tls system() {
    return new Tls(null, null, null);
  }

  /** Trusts the CAs of a PEM file, and no others. The file is read when the client is built. */
  public static Tls ofCa(Path ca) {
    return new Tls(ca, null, null);
  }

  /**
   * Returns the same with a certificate and key, from PEM files, for servers that ask for one. The
   * files are read when the client is built.
   */
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
