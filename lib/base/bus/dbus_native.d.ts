/** The part of dbus-native that `dbus.ts` uses; the package's own types bring another version of Node's. */

export class Variant {
  constructor(signature: string, value: unknown);
}

export interface Message {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

export interface MessageBus {
  readonly connection: {
    on(event: "connect", listener: () => void): void;
    on(event: "error", listener: (error: Error) => void): void;
    on(event: "close", listener: (cause?: Error) => void): void;
  };
  invoke(message: Message, options?: { readonly signal?: AbortSignal }): PromiseLike<unknown>;
  close(): Promise<void>;
}

export function createClient(options: {
  readonly busAddress: string;
  readonly timeout: number;
  readonly maxMessageSize: number;
  readonly reconnect: boolean;
}): MessageBus;
