/** Client of the time-series database TickMesh. The README shows how it is used. */
package io.github.tickmesh;
