/** The control plane's call on releases, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import type { MessageType } from "@bufbuild/protobuf";
import { Timestamp, wireMessage, wireService } from "../../machine/link/wire.ts";
import type { CallTime } from "../account/call_time.ts";

export interface ShownRelease {
  readonly name: string;
  readonly version: string;
  readonly platform: string;
  readonly channel: string;
  readonly bytes: bigint;
  readonly created?: CallTime;
}

export interface ReleaseCalls {
  listReleases(
    request: object,
  ): Promise<{ readonly releases: readonly ShownRelease[]; readonly keyId: string }>;
}

const PACKAGE = "svc.app.v1";

const Release = wireMessage(`${PACKAGE}.Release`, {
  name: [1, "string"],
  version: [2, "string"],
  platform: [3, "string"],
  channel: [4, "string"],
  bytes: [5, "uint64"],
  sha256: [6, "string"],
  created: [7, Timestamp as MessageType],
});

const ReleaseService = wireService(`${PACKAGE}.ReleaseService`, {
  ListReleases: [
    wireMessage(`${PACKAGE}.ListReleasesRequest`, {}),
    wireMessage(`${PACKAGE}.ListReleasesResponse`, {
      releases: [1, Release, "repeated"],
      key_id: [2, "string"],
    }),
  ],
});

export function releaseCalls(transport: Transport): ReleaseCalls {
  return createPromiseClient(ReleaseService, transport) as unknown as ReleaseCalls;
}
