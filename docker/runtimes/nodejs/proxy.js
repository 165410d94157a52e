#!/usr/bin/env node
// Action proxy for Node.js 16 and later: a single file without packages.
//
// It answers POST /init and POST /run like OpenWhisk's own Node.js runtime, with the
// same texts and formats. The user's code runs in this process.
'use strict';

const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const util = require('util');
const vm = require('vm');
const zlib = require('zlib');
const { createRequire } = require('module');

const SENTINEL = 'XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX';
const MAX_BODY = 256 * 1024 * 1024; // code is at most 48 MiB before base64 and JSON
const MAX_UNPACKED = 2 * 1024 * 1024 * 1024;

/** An answer other than success: a status code and an error text. */
class Rejected extends Error {
    constructor(code, text) {
        super(text);
        this.code = code;
    }
}

/** Marks the end of an activation on both streams. Pipes and files are written
 *  synchronously on POSIX systems, so nothing can come after it. */
function writeSentinels() {
    process.stdout.write(SENTINEL + '\n');
    process.stderr.write(SENTINEL + '\n');
}

/** Drops the stack frames that are the proxy's or node's own: they tell the
 *  author of an action nothing, and name paths of this image. */
function trimStack(error) {
    if (!(util.types.isNativeError(error) && typeof error.stack === 'string')) return error;
    const own = line => /^\s+at /.test(line) &&
        (line.includes(__filename) || /\(?node:/.test(line) || /^\s+at new Promise/.test(line));
    try {
        error.stack = error.stack.split('\n').filter(line => !own(line)).join('\n');
    } catch (_) {
        // A frozen error keeps its stack.
    }
    return error;
}

// ---------------------------------------------------------------- loading

/** Compiles plain code as the body of a CommonJS module. Its first line stays
 *  line 1. What it defines is found by evaluating `main` in its scope, else
 *  among its exports, as the stock runtime finds it. */
function loadPlain(code, main) {
    const head = '(function (exports, require, module, __filename, __dirname) {';
    const tail = `\ntry { return ${main} } catch (e) { ` +
        `if (e.name !== 'ReferenceError') throw e; ` +
        `return module.exports.${main} || exports.${main} }\n})`;
    const filename = path.join(process.cwd(), 'action.js');
    const script = new vm.Script(head + code + tail, {
        filename: 'action.js',
        columnOffset: -head.length,
        importModuleDynamically: specifier => import(specifier),
    });
    const module = { exports: {} };
    const load = script.runInThisContext();
    return load(module.exports, createRequire(filename), module, filename, process.cwd());
}

/** A syntax error's stack begins with the line and a caret under it. That goes
 *  to the log; the answer begins with the error itself. */
function splitSyntaxError(error) {
    if (!(error instanceof SyntaxError) || typeof error.stack !== 'string') return error;
    const at = error.stack.indexOf('\n\nSyntaxError: ');
    if (at < 0) return error;
    const where = error.stack.slice(0, at);
    process.stderr.write(where + '\n');
    error.stack = error.stack.slice(at + 2) + `\n    at ${where.split('\n', 1)[0]}`;
    return error;
}

/** Splits "file.a.b" into the module's name and the path in it; a name without
 *  a dot belongs to the archive's own main module. */
function splitMain(main) {
    const dot = main.indexOf('.');
    if (dot < 0) return [undefined, main];
    if (dot === 0 || dot === main.length - 1) throw 'Name of main function is not valid.';
    return [main.slice(0, dot), main.slice(dot + 1)];
}

function loadArchive(code, main) {
    const dir = actionFolder();
    unzip(Buffer.from(code, 'base64'), dir);
    const [file, name] = splitMain(main);
    process.chdir(dir);
    if (file === undefined && !fs.existsSync('package.json') && !fs.existsSync('index.js')) {
        throw 'Zipped actions must contain either package.json or index.js at the root.';
    }
    const root = createRequire(path.join(dir, 'index.js'));
    const found = root(file === undefined ? dir : path.join(dir, file));
    return name.split('.').reduce((value, key) => value[key], found);
}

/** A folder of our own: beside us if we may write there, else a temporary one. */
function actionFolder() {
    const dir = path.join(process.cwd(), 'action');
    try {
        fs.mkdirSync(dir);
        return dir;
    } catch (_) {
        return fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'action-')));
    }
}

// ---------------------------------------------------------------- zip

/** Finds the end record: it is last, but for a comment of up to 64 KiB. */
function endRecord(zip) {
    const lowest = Math.max(0, zip.length - 22 - 0xffff);
    for (let at = zip.length - 22; at >= lowest; at--) {
        if (zip.readUInt32LE(at) === 0x06054b50) return at;
    }
    throw new Error('no end record');
}

/** Reads the central directory entry at an offset. */
function zipEntry(zip, at) {
    if (zip.readUInt32LE(at) !== 0x02014b50) throw new Error('no directory entry');
    const nameLength = zip.readUInt16LE(at + 28);
    const local = zip.readUInt32LE(at + 42);
    if (zip.readUInt32LE(local) !== 0x04034b50) throw new Error('no local entry');
    return {
        flags: zip.readUInt16LE(at + 8),
        method: zip.readUInt16LE(at + 10),
        packed: zip.readUInt32LE(at + 20),
        size: zip.readUInt32LE(at + 24),
        mode: zip.readUInt32LE(at + 38) >>> 16,
        name: zip.toString('utf8', at + 46, at + 46 + nameLength),
        data: local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28),
        next: at + 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32),
    };
}

function zipData(zip, entry) {
    if (entry.flags & 1) throw new Error('encrypted entry');
    const packed = zip.subarray(entry.data, entry.data + entry.packed);
    if (packed.length !== entry.packed) throw new Error('entry cut off');
    if (entry.method === 0) return packed;
    if (entry.method !== 8) throw new Error('unknown compression method');
    // The limit stops an entry that unpacks to more than its declared size.
    const data = zlib.inflateRawSync(packed, { maxOutputLength: Math.max(entry.size, 1) });
    if (data.length !== entry.size) throw new Error('entry has the wrong size');
    return data;
}

function writeEntry(zip, entry, dir) {
    const target = path.join(dir, entry.name);
    if (entry.name.includes('\0') || !(target + path.sep).startsWith(dir + path.sep)) {
        throw new Error('entry outside the archive');
    }
    if (entry.name.endsWith('/')) return fs.mkdirSync(target, { recursive: true });
    fs.mkdirSync(path.dirname(target), { recursive: true });
    const data = zipData(zip, entry);
    if ((entry.mode & 0o170000) === 0o120000) return linkEntry(data.toString(), target, dir);
    const mode = entry.mode & 0o777;
    fs.writeFileSync(target, data);
    if (mode) fs.chmodSync(target, mode | 0o400);
}

/** Packages bring links in node_modules/.bin; one that leaves the archive is refused. */
function linkEntry(to, target, dir) {
    const end = path.resolve(path.dirname(target), to);
    if (!(end + path.sep).startsWith(dir + path.sep)) throw new Error('link outside the archive');
    fs.symlinkSync(to, target);
}

function unzip(zip, dir) {
    try {
        const end = endRecord(zip);
        const count = zip.readUInt16LE(end + 10);
        let at = zip.readUInt32LE(end + 16);
        for (let i = 0, total = 0; i < count; i++) {
            const entry = zipEntry(zip, at);
            total += entry.size;
            if (total > MAX_UNPACKED) throw new Error('archive too large');
            writeEntry(zip, entry, dir);
            at = entry.next;
        }
    } catch (error) {
        console.error('Action archive:', error.message);
        throw 'There was an error uncompressing the action archive.';
    }
}

// ---------------------------------------------------------------- activations

/** What a rejected promise becomes in JSON: an error's own fields and the four
 *  that are not enumerable; functions left out, circles cut. */
function errorToJSON(value, above = []) {
    if (typeof value === 'function') return `[Function: ${value.name || 'anonymous'}]`;
    if (typeof value !== 'object' || value === null) return value;
    const seen = above.concat([value]);
    const copy = Array.isArray(value) ? [] : {};
    for (const key of Object.keys(value)) {
        const field = value[key];
        if (typeof field === 'function') continue;
        copy[key] = seen.includes(field) ? '[Circular]' : errorToJSON(field, seen);
    }
    for (const key of ['name', 'message', 'stack', 'code']) {
        if (typeof value[key] === 'string') copy[key] = value[key];
    }
    return copy;
}

function setEnv(env) {
    for (const [key, value] of Object.entries(env)) {
        const text = value !== null && typeof value === 'object' ? JSON.stringify(value) : value;
        process.env[key] = text ? String(text) : '';
    }
}

/** The user's code and the states it goes through: ready, starting, running, stopped. */
class Action {
    constructor(concurrent) {
        this.concurrent = concurrent;
        this.status = 'ready';
        this.main = undefined;
    }

    /** A stopped action never runs again: its container is about to go. */
    become(status) {
        if (this.status !== 'stopped') this.status = status;
    }

    reject(text) {
        console.error('Internal system error:', text);
        throw new Rejected(403, text);
    }

    async init(message) {
        if (this.main) this.reject('Cannot initialize the action more than once.');
        if (this.status !== 'ready') this.reject(`System not ready, status is ${this.status}.`);
        const value = message.value || {};
        if (!(value.main && value.code && typeof value.main === 'string' && typeof value.code === 'string')) {
            throw new Rejected(403, 'Missing main/no code to execute.');
        }
        this.become('starting');
        try {
            if (value.env && typeof value.env === 'object') setEnv(value.env);
            this.main = this.load(value);
        } catch (error) {
            this.failInit(error);
        }
        this.become('ready');
        return { OK: true };
    }

    load(value) {
        const main = value.binary ? loadArchive(value.code, value.main) : loadPlain(value.code, value.main);
        if (typeof main !== 'function') throw `Action entrypoint '${value.main}' is not a function.`;
        return main;
    }

    failInit(thrown) {
        const error = trimStack(splitSyntaxError(thrown));
        console.error('Error during initialization:', error);
        writeSentinels();
        this.become('stopped');
        const text = error && error.stack ? String(error.stack) : error;
        throw new Rejected(502, `Initialization has failed due to: ${text}`);
    }

    async run(message) {
        if (!this.main) this.reject('System not initialized.');
        if (this.status !== 'ready') this.reject(`System not ready, status is ${this.status}.`);
        const args = message.value === null || message.value === undefined ? {} : message.value;
        if (typeof args !== 'object') {
            this.reject(`Internal system error: the argument must be a dictionary but has type '${typeof args}'.`);
        }
        if (!this.concurrent) this.become('running');
        for (const [key, value] of Object.entries(message)) {
            if (typeof value === 'string' && key !== 'value') process.env['__OW_' + key.toUpperCase()] = value;
        }
        const result = await this.invoke(args);
        if (!this.concurrent) this.become('ready');
        if (typeof result !== 'object') throw new Rejected(502, 'The action did not return a dictionary.');
        return result;
    }

    /** Runs the user's function. A throw ends the action; a rejected promise is
     *  an ordinary result that holds an error. */
    async invoke(args) {
        let result;
        try {
            result = this.main(args);
        } catch (error) {
            console.error(trimStack(error));
            writeSentinels();
            this.become('stopped');
            throw new Rejected(502, `An error has occurred: ${error}`);
        }
        try {
            result = await result;
        } catch (error) {
            result = { error: error ? errorToJSON(trimStack(error)) : {} };
        }
        if (result === undefined) result = {};
        if (typeof result !== 'object') {
            console.error(`Result must be of type object but has type "${typeof result}":`, result);
        }
        writeSentinels();
        return result;
    }
}

// ---------------------------------------------------------------- HTTP

function answer(response, code, value) {
    let body;
    try {
        body = JSON.stringify(value);
        if (body === undefined) throw new Error('no JSON');
    } catch (_) {
        code = 500;
        body = '{"error":"Internal error."}';
    }
    response.writeHead(code, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
    });
    response.end(body);
}

function readBody(request) {
    return new Promise((resolve, reject) => {
        const parts = [];
        let size = 0;
        request.on('data', part => {
            size += part.length;
            if (size <= MAX_BODY) parts.push(part);
        });
        request.on('end', () => {
            if (size > MAX_BODY) return reject(new Rejected(413, 'The request is too large.'));
            resolve(parts.length === 1 ? parts[0] : Buffer.concat(parts, size));
        });
        request.on('error', reject);
    });
}

function parse(body) {
    let message;
    try {
        message = JSON.parse(body.toString('utf8') || '{}');
    } catch (error) {
        throw new Rejected(400, `The request is no JSON: ${error.message}`);
    }
    if (message === null || typeof message !== 'object') throw new Rejected(400, 'The request is no JSON object.');
    return message;
}

async function serve(action, request, response) {
    try {
        const endpoint = { '/init': 'init', '/run': 'run' }[request.url.split('?', 1)[0]];
        if (!endpoint) throw new Rejected(404, 'There is nothing at this path.');
        if (request.method !== 'POST') throw new Rejected(405, 'Only POST is answered here.');
        const message = parse(await readBody(request));
        answer(response, 200, await action[endpoint](message));
    } catch (error) {
        if (error instanceof Rejected) return answer(response, error.code, { error: error.message });
        answer(response, 500, { error: 'Internal error.' });
    }
}

function main() {
    const host = process.env.__OW_PROXY_HOST || '0.0.0.0';
    const port = Number(process.env.__OW_PROXY_PORT || 8080);
    const path = process.env.__OW_PROXY_SOCKET;
    delete process.env.__OW_PROXY_SOCKET;
    delete process.env.__OW_PROXY_HOST;
    delete process.env.__OW_PROXY_PORT;
    // Output is written before the action goes on. Node would keep it in memory while the
    // pipe is full, and answer long before the log has it.
    for (const stream of [process.stdout, process.stderr]) {
        if (stream._handle && stream._handle.setBlocking) stream._handle.setBlocking(true);
    }
    const concurrent = (process.env.__OW_ALLOW_CONCURRENT || '').toLowerCase() === 'true';
    const action = new Action(concurrent);
    const server = http.createServer((request, response) => serve(action, request, response));
    // The invoker closes connections long before this time. If the proxy closed one while
    // a request was on its way, the action would seem to have died. Answers announce the
    // time.
    server.keepAliveTimeout = 60000;
    server.timeout = 0;
    server.requestTimeout = 0;
    server.headersTimeout = 0;
    server.on('connection', socket => socket.setNoDelay(true));
    process.on('SIGTERM', () => process.exit(143));
    // Listen on a Unix socket if one is given, else on a port.
    server.listen(path ? { path } : { port, host });
}

main();
