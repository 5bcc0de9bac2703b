// Types of causalcast.js.

/** Where a client is, as data that JSON can carry. */
export interface Position {
  /** By group and origin: the number of the last message that was handled. */
  seen: Record<string, Record<string, number>>;
  /** The same of all that was seen or published. */
  past: Record<string, Record<string, number>>;
  /** Whose deliveries that counts. */
  log: string;
}

/** A refusal of a node, or what became of the connection; `code` says which. */
export class CausalcastError extends Error {
  constructor(code: string, text: string, group?: string);
  readonly code: string;
  /** The group that it is about, or none. */
  readonly group: string;
}

/** A message of a group. */
export class Message {
  private constructor();
  /** Such as "3.17": the 17th of node 3. */
  readonly id: string;
  readonly group: string;
  readonly body: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  readonly contentType: string;
  /** By its publisher's clock; null where it does not say. */
  readonly publishedAt: Date | null;
  /** The body as text. */
  text(): string;
}

/** What may be said of a connection; times are in milliseconds. */
export interface ConnectOptions {
  /** Who this is, where there are no tokens. */
  name?: string;
  /** Go on here. */
  position?: Position | null;
  /** For how long to wait for a node that may have made a publication. */
  stay?: number;
  /** From dialling to the welcome. */
  openWithin?: number;
  /** A node that is silent for so long is asked, and given up after as long again. */
  alive?: number;
}

/** What travels with a message, and a key that makes a repetition known. */
export interface PublishOptions {
  key?: string;
  headers?: Record<string, string>;
  contentType?: string;
}

/** Where to begin, and what to do if a node cannot go on where this client was. */
export interface SubscribeOptions {
  since?: "now" | "kept";
  onGap?: ((error: CausalcastError) => unknown) | null;
  onRefused?: ((error: CausalcastError) => unknown) | null;
}

/** What a client may do. */
export interface GroupList {
  publish: string[];
  subscribe: string[];
}

/** A node at a door, or one of several. */
export class Client {
  private constructor();
  /** Whom it is connected to, or was last. */
  readonly node: number | null;
  /** Called when nothing can come any more. */
  onfailure: (error: CausalcastError) => unknown;
  /** Whether it is connected now. */
  get isOpen(): boolean;
  /** Publish; resolves to the message's id when it is durable at a node. */
  publish(group: string, body: string | Uint8Array, options?: PublishOptions): Promise<string>;
  /** Call `handler` with the messages of these groups, one after the other, in causal order. */
  subscribe(
    groups: string[],
    handler: (message: Message) => unknown,
    options?: SubscribeOptions,
  ): Promise<void>;
  /** What this client may do. */
  groups(): Promise<GroupList>;
  /** Make a group, if the token allows it; resolves when that is durable at the node. */
  createGroup(group: string): Promise<void>;
  /** Let there be no such group any more, at any node, if the token allows it. */
  removeGroup(group: string): Promise<void>;
  /** Where this client is: `connect(…, {position})` goes on there. */
  position(): Position;
  /** Hang up. */
  close(): void;
}

/** A node at a door; of several the next one is tried when one is lost. */
export function connect(urls: string | string[], token?: string, options?: ConnectOptions): Client;
