/**
 * The part of the published DNS package that we use.
 */

/** Names are written with dots between their labels. */
export type DnsRecord =
  & { readonly name: string; readonly ttl?: number; readonly flush?: boolean; readonly class?: string }
  & (
    | { readonly type: "PTR"; readonly data: string }
    | {
      readonly type: "SRV";
      readonly data: {
        readonly target: string;
        readonly port: number;
        readonly priority?: number;
        readonly weight?: number;
      };
    }
    | { readonly type: "TXT"; readonly data: readonly (string | Uint8Array)[] }
    | { readonly type: "A" | "AAAA"; readonly data: string }
  );

export interface DnsQuestion {
  readonly name: string;
  readonly type: string;
  readonly class?: string;
}

export interface DnsMessage {
  readonly id?: number;
  readonly type: "query" | "response";
  readonly flags?: number;
  readonly questions?: readonly DnsQuestion[];
  readonly answers?: readonly DnsRecord[];
  readonly additionals?: readonly DnsRecord[];
}

export const AUTHORITATIVE_ANSWER: number;

export function encode(message: DnsMessage): Uint8Array;

/** Throws if the bytes are no DNS message. Other types of records have data of their own. */
export function decode(bytes: Uint8Array): DnsMessage;
