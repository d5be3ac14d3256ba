/** The part of nodemailer that we use; it comes without types. */

export interface Transport {
  sendMail(mail: {
    from: string;
    to: { name: string; address: string };
    subject: string;
    text: string;
    messageId: string;
  }): Promise<unknown>;
  close(): void;
}

export function createTransport(options: {
  host: string;
  port: number;
  secure: boolean;
  requireTLS: boolean;
  auth?: { user: string; pass: string };
  connectionTimeout: number;
  greetingTimeout: number;
  socketTimeout: number;
  disableFileAccess: boolean;
  disableUrlAccess: boolean;
}): Transport;
