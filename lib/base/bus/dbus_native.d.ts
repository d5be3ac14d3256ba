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

/** A message that has come; only signals are listened to. */
export interface SignalMessage {
  readonly path?: string;
  readonly interface?: string;
  readonly member?: string;
  readonly body?: readonly unknown[];
}

export interface MessageBus {
  readonly connection: {
    on(event: "connect", listener: () => void): void;
    on(event: "error", listener: (error: Error) => void): void;
    on(event: "close", listener: (cause?: Error) => void): void;
    on(event: "message", listener: (message: SignalMessage) => void): void;
    off(event: "message", listener: (message: SignalMessage) => void): void;
    /** Connects no more. */
    end(): void;
    readonly stream: { destroy(): void };
  };
  /** The connection's own name on the bus. */
  name: string | null;
  on(event: "reconnectError", listener: (error: Error) => void): void;
  watch(rule: string): Promise<{ remove(): Promise<void> }>;
  invoke(message: Message, options?: { readonly signal?: AbortSignal }): PromiseLike<unknown>;
  exportInterface(impl: unknown, path: string, descriptor: unknown): void;
  exportObjectManager(path: string): unknown;
  readonly objectManagers: Set<string>;
  unexportInterface(path: string, name?: string): boolean;
  emitPropertiesChanged(path: string, name: string, changed: { readonly [name: string]: unknown }): void;
  close(): Promise<void>;
}

export interface MethodSpec {
  readonly in?: { readonly [name: string]: string };
  readonly out?: { readonly [name: string]: string };
  readonly handler: (
    args: { readonly [name: string]: unknown },
    context: { readonly sender: string },
  ) => unknown;
}

export interface PropertySpec {
  readonly type: string;
  readonly access: "read" | "readwrite";
  readonly get: () => unknown;
  readonly set?: (value: unknown) => void;
}

export function defineInterface(spec: {
  readonly name: string;
  readonly methods: { readonly [name: string]: MethodSpec };
  readonly properties: { readonly [name: string]: PropertySpec };
}): { readonly descriptor: unknown; readonly impl: unknown };

export function createClient(options: {
  readonly busAddress: string;
  readonly timeout: number;
  readonly maxMessageSize: number;
  readonly reconnect: boolean;
  /** Without the greeting that a bus wants first. */
  readonly direct: boolean;
}): MessageBus;
