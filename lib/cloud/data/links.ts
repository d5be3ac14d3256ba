/**
 * Links to contents of captured data: a holder may download the content over HTTP until the link expires.
 */

import { createHmac } from "node:crypto";
import { messageOf, SvcError } from "../../base/error.ts";
import { textAnswer } from "../../wire/port/routes.ts";
import { forAnySite } from "../../wire/port/sites.ts";
import type { Peer } from "../../wire/rpc/service.ts";
import type { CloudContext } from "../access/context.ts";
import { BinaryData, type BinaryItem } from "./binary_data.ts";
import { isSameText } from "../../base/same_text.ts";
import { storedAnswer } from "../packages/downloads.ts";
import { imageFileName } from "../../cloud_client/dataset.ts";
import { ANY_BYTES, isMimeType } from "../../cloud_client/mime_types.ts";
import type { Route, RouteAnswer, RouteRequest } from "../../wire/port/route.ts";

const PATH = "/data/v1/files";
const MINUTES = { usual: 15, max: 7 * 24 * 60 };

/** The content behind a link. */
export type LinkedContent = Pick<
  BinaryItem,
  "id" | "fileName" | "fileExt" | "mimeType" | "sha256" | "bytes"
>;

export class DataLinks {
  /** `other` finds contents that are not captured data. */
  constructor(
    private readonly cloud: CloudContext,
    private readonly other: (id: string) => Promise<LinkedContent | undefined>,
  ) {}

  get routes(): Map<string, Route> {
    return new Map([[`${PATH}/*`, forAnySite((request) => this.#answer(request))]]);
  }

  /** A link that is valid for the given minutes, at the address that the caller uses. */
  async make(
    id: string,
    minutes: number = MINUTES.usual,
    peer: Peer,
  ): Promise<{ url: string; expiresMs: number }> {
    if (minutes < 1 || minutes > MINUTES.max) {
      const wanted = `wanted 1 to ${MINUTES.max}`;
      throw new SvcError("invalid_argument", `found a link for ${minutes} minutes, ${wanted}`);
    }
    const expiresMs = Math.ceil(this.cloud.clock.nowMs() + minutes * 60_000);
    return { url: this.#urlOf(await this.cloud.addresses.linkFor(peer), id, expiresMs), expiresMs };
  }

  /**
   * Makes the links of one answer, valid for the usual time. They are empty if the address of this control plane is
   * unknown, since the rest of the answer needs none.
   */
  async forAnswer(peer: Peer): Promise<(id: string) => string> {
    const expiresMs = Math.ceil(this.cloud.clock.nowMs() + MINUTES.usual * 60_000);
    try {
      const address = await this.cloud.addresses.linkFor(peer);
      return (id) => this.#urlOf(address, id, expiresMs);
    } catch (error) {
      if (SvcError.from(error).code !== "failed_precondition") throw error;
      return () => "";
    }
  }

  #urlOf(address: string, id: string, expiresMs: number): string {
    return `${address}${PATH}/${id}?expires=${expiresMs}&signature=${this.#signatures(id, expiresMs)[0]}`;
  }

  async #answer(request: RouteRequest): Promise<RouteAnswer> {
    const { method, path, query } = request;
    if (method !== "GET" && method !== "HEAD") return textAnswer(405, `${path} answers GET, not ${method}`);
    const id = path.slice(PATH.length + 1);
    const expiresMs = Number(query.get("expires"));
    const signature = query.get("signature") ?? "";
    if (!this.#signatures(id, expiresMs).some((wanted) => isSameText(signature, wanted))) {
      return textAnswer(403, "this control plane has not issued the link");
    }
    if (!(this.cloud.clock.nowMs() < expiresMs)) {
      return textAnswer(403, "the link has expired: ask for a new one");
    }
    try {
      const item = await this.other(id) ?? await this.#image(id);
      const name = imageFileName(item.id, item.fileName, item.fileExt, item.mimeType);
      const content = {
        ...item,
        contentType: isMimeType(item.mimeType) ? item.mimeType : ANY_BYTES,
        cache: "private",
        name,
      };
      return storedAnswer(request, this.cloud.files, content, [
        // Keeps a browser from running an upload in the name of this site.
        ["content-security-policy", "sandbox; default-src 'none'"],
        ["x-content-type-options", "nosniff"],
      ]);
    } catch (error) {
      return textAnswer(SvcError.from(error).code === "not_found" ? 404 : 503, messageOf(error));
    }
  }

  async #image(id: string): Promise<LinkedContent> {
    const [image] = await new BinaryData(this.cloud.store).get([id]);
    if (image) return image;
    throw new SvcError("not_found", `there is no data "${id}"`);
  }

  /** The key that signs, then the others that are valid. */
  #signatures(id: string, expiresMs: number): string[] {
    return this.cloud.secrets.good("data-links").map((secret) =>
      createHmac("sha256", secret).update(`${id}\n${expiresMs}`).digest("base64url")
    );
  }
}
