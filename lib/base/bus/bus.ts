/**
 * The system's message bus (D-Bus), on which NetworkManager, BlueZ and systemd take calls.
 *
 * Every call has a deadline, and a message has at most 4 MiB. Each failure is an `SvcError` that names the call. The
 * same connection serves objects to other programs. The library is loaded with the first bus.
 *
 * The room owns the message bus of the system.
 */

import type { createClient, defineInterface, MessageBus, SignalMessage } from "./dbus_native.d.ts";
import { type Clock, deadline, race } from "../clock.ts";
import type { Environment } from "../host.ts";
import { type Code, messageOf, SvcError } from "../error.ts";

/** A value with an explicit type, for places where the bus accepts any type: `typed("s", "text")`. */
export type Typed = readonly [signature: string, value: unknown];

/** `a{sa{sv}}`: sections of values by name. */
export type TypedSections = { readonly [section: string]: { readonly [key: string]: Typed } };

export interface BusCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly args?: readonly unknown[];
  readonly signal?: AbortSignal;
}

/** A signal that an object of another program sends. */
export interface BusSignal {
  /** The well-known name of the sender. */
  readonly sender: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
}

/** An interface of an object that other programs call. */
export interface ServedInterface {
  readonly name: string;
  readonly methods?: { readonly [name: string]: ServedMethod };
  /** Call `changed` after a value changes. */
  readonly properties?: {
    readonly [name: string]: readonly [signature: string, get: () => unknown, set?: (value: unknown) => void];
  };
}

export interface ServedMethod {
  /** Signatures by the arguments' names. */
  readonly in?: { readonly [name: string]: string };
  readonly out?: string;
  /** `caller` is the caller's unique name. Throw `BusRefusal` to choose the name of the error. */
  readonly run: (args: { readonly [name: string]: unknown }, caller: string) => unknown;
}

/** An error with the D-Bus name that the caller expects. */
export class BusRefusal extends Error {
  constructor(readonly dbusName: string, message: string) {
    super(message);
  }
}

export interface Bus {
  /** The answer: nothing, one value, or an array of several values. Variants are unwrapped. */
  call<T = unknown>(call: BusCall): Promise<T>;
  /** Listens to a signal of an object, until the returned function is called. */
  listen(signal: BusSignal, listener: (args: readonly unknown[]) => void): Promise<() => void>;
  /** Serves an interface of an object. */
  serve(path: string, served: ServedInterface): void;
  /** Serves the list of all objects below a path (`org.freedesktop.DBus.ObjectManager`). */
  serveTree(path: string): void;
  /** Removes the objects at a path and below it. */
  unserve(path: string): void;
  /** Announces the new value of a served property. */
  changed(path: string, interfaceName: string, property: string): void;
  /** Fails the calls under way. Idempotent. */
  close(): Promise<void>;
}

const SYSTEM_BUS = "unix:path=/var/run/dbus/system_bus_socket";
const DAEMON = "org.freedesktop.DBus";
const HELLO = { destination: DAEMON, path: "/org/freedesktop/DBus", interface: DAEMON, member: "Hello" };
const CALL_MS = 25_000;
/** systemd accepts connections before the bus runs. */
const OPEN_MS = 10_000;
/** Time for what has been written; a bus that hangs takes nothing and does not hang up. */
const CLOSE_MS = 1_000;
const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;

const CODES: { readonly [name: string]: Code } = {
  NoReply: "deadline_exceeded",
  Timeout: "deadline_exceeded",
  AccessDenied: "permission_denied",
  PermissionDenied: "permission_denied",
  ServiceUnknown: "unavailable",
  NameHasNoOwner: "unavailable",
  Disconnected: "unavailable",
  UnknownMethod: "unimplemented",
  UnknownObject: "not_found",
  UnknownConnection: "not_found",
  UnknownDevice: "not_found",
  InvalidArgs: "invalid_argument",
};

/**
 * Connects to the system bus, or to the address in `DBUS_SYSTEM_BUS_ADDRESS`. Throws `unavailable` if there is no bus
 * that answers.
 */
export async function openBus(host: Environment, clock: Clock): Promise<Bus> {
  const { createClient, defineInterface, Variant } = await import("./dbus_native.ts");
  const bus = await openClient(createClient, host, clock);
  const wrapped = (value: unknown): unknown => {
    if (isTyped(value)) return new Variant(value[0], wrapped(value[1]));
    if (Array.isArray(value)) return value.map(wrapped);
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, wrapped(one)]));
  };
  return {
    async call<T>({ signal, args = [], ...message }: BusCall): Promise<T> {
      try {
        const body = args.length > 0 ? { body: args.map(wrapped) } : {};
        return await bus.invoke({ ...message, ...body }, { signal }) as T;
      } catch (error) {
        throw failure(message, error, signal);
      }
    },
    async listen(wanted, listener) {
      const { sender, path, interface: name, member } = wanted;
      const heard = (message: SignalMessage) => {
        if (message.path !== path || message.interface !== name || message.member !== member) return;
        listener(message.body ?? []);
      };
      bus.connection.on("message", heard);

      const rule = `type='signal',sender='${sender}',path='${path}',interface='${name}',member='${member}'`;
      const stop = () => bus.connection.off("message", heard);
      try {
        const watched = await bus.watch(rule);
        return () => {
          stop();
          watched.remove().catch(() => {});
        };
      } catch (error) {
        stop();
        throw failure({ ...wanted, destination: sender }, error);
      }
    },
    ...objects(bus, defineInterface),
    close: () => closed(bus, clock),
  };
}

/** Connects, and greets the bus. */
async function openClient(create: typeof createClient, host: Environment, clock: Clock): Promise<MessageBus> {
  const busAddress = host.env("DBUS_SYSTEM_BUS_ADDRESS") || SYSTEM_BUS;
  const bus = create({
    busAddress,
    timeout: CALL_MS,
    maxMessageSize: MESSAGE_BYTES_MAX,
    // Calls under way fail; calls after the bus is back succeed.
    reconnect: true,
    // No greeting of the library's own: it throws where nobody can catch it if the bus refuses or does not answer.
    direct: true,
  });
  // Calls under way fail by themselves. Without this listener the end of the bus would end the program.
  bus.connection.on("error", () => {});
  // A bus that is back and does not answer: connects anew.
  bus.on("reconnectError", () => bus.connection.stream.destroy());
  const seconds = OPEN_MS / 1000;
  const late = deadline(
    clock,
    OPEN_MS,
    () => new SvcError("deadline_exceeded", `it did not answer within ${seconds} s`),
  );
  try {
    await race(greeted(bus), late.signal);
  } catch (error) {
    await closed(bus, clock);
    throw new SvcError("unavailable", `there is no message bus at ${busAddress}: ${messageOf(error)}`);
  } finally {
    late.done();
  }
  return bus;
}

/** The objects that this connection serves. */
function objects(bus: MessageBus, define: typeof defineInterface): Omit<Bus, "call" | "close" | "listen"> {
  const served = new Map<string, ServedInterface[]>();
  return {
    serve(path, one) {
      const { name, methods = {}, properties = {} } = one;
      const { impl, descriptor } = define({
        name,
        methods: Object.fromEntries(
          Object.entries(methods).map(([name, { in: args, out, run }]) => [name, {
            in: args,
            out: out === undefined ? undefined : { value: out },
            handler: async (args, { sender }) => await run(args, sender) ?? null,
          }]),
        ),
        properties: Object.fromEntries(
          Object.entries(properties).map(([name, [type, get, set]]) => {
            const own = set ? { access: "readwrite", set } as const : { access: "read" } as const;
            return [name, { type, get, ...own }];
          }),
        ),
      });
      bus.exportInterface(impl, path, descriptor);
      served.set(path, [...served.get(path) ?? [], one]);
    },
    serveTree: (path) => void bus.exportObjectManager(path),
    unserve(path) {
      bus.objectManagers.delete(path);
      for (const one of [...served.keys()]) {
        if (one !== path && !one.startsWith(`${path}/`)) continue;
        served.delete(one);
        bus.unexportInterface(one);
      }
    },
    changed(path, name, property) {
      const found = served.get(path)?.find((one) => one.name === name)?.properties?.[property];
      if (found) bus.emitPropertiesChanged(path, name, { [property]: found[1]() });
    },
  };
}

/** A value with its type. */
export function typed(signature: string, value: unknown): Typed {
  return Object.assign([signature, value] as const, { [TYPED]: true });
}

const TYPED = Symbol("typed");

function isTyped(value: unknown): value is Typed {
  return Array.isArray(value) && TYPED in value;
}

/** Connects, and gets the connection its name. */
async function greeted(bus: MessageBus): Promise<void> {
  await connected(bus);
  bus.name = await bus.invoke(HELLO) as string;
}

/** Also ends the attempts to connect anew, and a connection that the other side does not end. */
async function closed(bus: MessageBus, clock: Clock): Promise<void> {
  const late = deadline(clock, CLOSE_MS, () => undefined);
  try {
    bus.connection.end();
    await race(bus.close(), late.signal).catch(() => {});
  } finally {
    late.done();
    bus.connection.stream.destroy();
  }
}

function connected(bus: MessageBus): Promise<void> {
  return new Promise((resolve, reject) => {
    bus.connection.on("connect", () => resolve());
    bus.connection.on("error", reject);
    bus.connection.on("close", (cause) => reject(cause ?? new Error("it has hung up")));
  });
}

function failure(
  { interface: name, member, path }: Omit<BusCall, "signal" | "args">,
  error: unknown,
  signal?: AbortSignal,
): SvcError {
  if (signal?.aborted) return SvcError.from(signal.reason);
  const { dbusName = "" } = error as { dbusName?: string };
  const code = CODES[dbusName.split(".").at(-1) ?? ""] ?? "failed_precondition";
  return new SvcError(code, `${name}.${member} of ${path} failed: ${messageOf(error)}`, { cause: error });
}
