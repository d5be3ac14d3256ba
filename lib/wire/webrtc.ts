/**
 * WebRTC peers; the one file through which the native addon enters.
 *
 * The addon is loaded when the first peer is made and not before, so that a program that makes none needs none.
 */

import { SvcError } from "../base/error.ts";

/**
 * The offer of a fresh peer with the two data channels that the published clients expect (0 `data`, 1
 * `negotiation`; both negotiated beforehand, ordered and reliable), with all its local candidates in it, as SDP.
 * The peer is closed again. Throws `unavailable` if the addon cannot be loaded, the signal's reason if it aborts.
 */
export async function makeOffer(signal?: AbortSignal): Promise<string> {
  const { PeerConnection } = await loadAddon();
  signal?.throwIfAborted();
  const peer = new PeerConnection("svc", { iceServers: [] });
  const { promise: aborted, reject: abort } = Promise.withResolvers<never>();
  const onAbort = () => abort(signal?.reason);
  signal?.addEventListener("abort", onAbort);
  try {
    const { promise: gathered, resolve: finish } = Promise.withResolvers<void>();
    peer.onGatheringStateChange((state) => state === "complete" && finish());
    peer.createDataChannel("data", { negotiated: true, id: 0 });
    peer.createDataChannel("negotiation", { negotiated: true, id: 1 });
    peer.setLocalDescription("offer");
    await Promise.race([gathered, aborted]);
    const description = peer.localDescription();
    if (description?.type !== "offer") {
      throw new SvcError("internal", "WebRTC peer gathered but made no offer");
    }
    return description.sdp;
  } finally {
    signal?.removeEventListener("abort", onAbort);
    peer.close();
  }
}

async function loadAddon() {
  try {
    return await import("node-datachannel");
  } catch (cause) {
    throw new SvcError("unavailable", "Cannot load the WebRTC addon", { cause });
  }
}
