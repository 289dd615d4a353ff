//! A command in a sandbox, as with [`std::process::Command`].

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{
    EnvironmentBase, EnvironmentPolicy, Missing, Origin, PathRule, Policy, SearchScope,
};
use kennel_policy::settings::{ValueError, name, variable};

use crate::backend::{Backend, Native};
use crate::job::{Hooks, Job, Streams};
use crate::{Child, ExecutionResult, Result, Sandbox, SandboxError, Stdio};

/// A command to run in a sandbox of its own, created by [`Sandbox::command`], or in a session, created by
/// [`Session::command`](crate::Session::command).
///
/// ```
/// let sandbox = kennel::Sandbox::builder().build()?;
/// let result = sandbox.command("sh").args(["-c", "echo $GREETING"]).env("GREETING", "hello").output()?;
/// assert_eq!(result.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Debug)]
pub struct Command<'s> {
    place: CommandPlace<'s>,
    words: Vec<OsString>,
    clear: bool,
    /// Changes to variables, in order; `None` removes one.
    variables: Variables,
    folder: Option<PathBuf>,
    workspace: Option<PathBuf>,
    input: Option<Input>,
    streams: [Option<Stdio>; 3],
    terminal: Option<(u16, u16)>,
    timeout: Option<Duration>,
    max_output: Option<u64>,
}

/// Where a command runs.
#[derive(Clone, Copy)]
pub(crate) enum CommandPlace<'s> {
    /// In a fresh sandbox.
    Sandbox(&'s Sandbox),
    /// In one like this that was prepared for it.
    Pool(&'s Sandbox, &'s <Native as Backend>::Pool),
    /// Beside the others of a session with this policy.
    Session(&'s Arc<Policy>, &'s Arc<<Native as Backend>::Session>),
}

impl std::fmt::Debug for CommandPlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the policy: its variables may hold secrets.
        f.write_str(match self {
            CommandPlace::Sandbox(_) => "Sandbox",
            CommandPlace::Pool(..) => "Pool",
            CommandPlace::Session(..) => "Session",
        })
    }
}

/// Variables and their values, which may be secrets.
#[derive(Clone, Default)]
struct Variables(Vec<(OsString, Option<OsString>)>);

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// What the command reads, which may be a secret.
#[derive(Clone)]
struct Input(Vec<u8>);

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<'s> Command<'s> {
    pub(crate) fn new(place: CommandPlace<'s>, program: &OsStr) -> Command<'s> {
        Command {
            place,
            words: vec![program.to_owned()],
            clear: false,
            variables: Variables::default(),
            folder: None,
            workspace: None,
            input: None,
            streams: [const { None }; 3],
            terminal: None,
            timeout: None,
            max_output: None,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.words.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = A>) -> &mut Self {
        self.words.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable, on top of those that the sandbox has.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.variables.0.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Sets variables.
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> &mut Self {
        for (name, value) in variables {
            self.env(name, value);
        }
        self
    }

    /// Removes a variable, whoever set it.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.variables.0.push((name.as_ref().to_owned(), None));
        self
    }

    /// Passes on only the caller's basic variables, and removes variables set here before. Variables that the sandbox
    /// sets stay.
    pub fn env_clear(&mut self) -> &mut Self {
        self.clear = true;
        self.variables.0.clear();
        self
    }

    /// The directory the command starts in. A relative path is relative to the caller's working directory when the
    /// command is started.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Kills the command and all that it started after this time. A shorter limit of the sandbox stays.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let result = sandbox.command("sleep").arg("60").timeout(Duration::from_millis(100)).output()?;
    /// assert!(result.killed_by_timeout);
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        self.timeout = Some(limit);
        self
    }

    /// Captures no more than so many bytes of each output stream. A lower limit of the sandbox stays.
    pub fn max_output(&mut self, bytes: u64) -> &mut Self {
        self.max_output = Some(bytes);
        self
    }

    /// A folder that the command may write to, on top of those that the sandbox has; it starts there, unless
    /// [`Command::current_dir`] says otherwise. Git repositories in it, and whatever else the sandbox protects in writable
    /// folders, are protected as if the folder had been listed. Not for sessions, whose folders are those that they started with.
    pub fn workspace(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.workspace = Some(folder.as_ref().to_owned());
        self
    }

    /// The command's input, for [`Command::output`] and [`Command::status`].
    pub fn input(&mut self, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.input = Some(Input(bytes.into()));
        self
    }

    /// Where the command reads from.
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[0] = Some(stream.into());
        self
    }

    /// Where the command writes to.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[1] = Some(stream.into());
        self
    }

    /// Where the command writes errors to.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[2] = Some(stream.into());
        self
    }

    /// Gives the command its own terminal, with this many rows and columns, in place of all three streams. For
    /// [`Command::spawn`]: [`Child::terminal`] is the other side.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let mut child = sandbox.command("sh").args(["-c", "tty; stty size"]).terminal(24, 80).spawn()?;
    /// let mut shown = String::new();
    /// child.terminal.take().expect("it has one").read_to_string(&mut shown)?;
    /// assert!(shown.starts_with("/dev/pts/0") && shown.contains("24 80"));
    /// assert!(child.wait()?.success());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn terminal(&mut self, rows: u16, columns: u16) -> &mut Self {
        self.terminal = Some((rows, columns));
        self
    }

    /// Runs the command to its end and captures its output. By default it reads nothing.
    ///
    /// # Errors
    /// When the sandbox cannot be set up or the command cannot be executed. A command that fails is not an error: see
    /// [`ExecutionResult::exit_code`].
    pub fn output(&mut self) -> Result<ExecutionResult> {
        let defaults = [Stdio::null(), Stdio::piped(), Stdio::piped()];
        self.run(defaults)
    }

    /// Runs the command to its end on the caller's own streams.
    ///
    /// # Errors
    /// As [`Command::output`].
    pub fn status(&mut self) -> Result<ExecutionResult> {
        let defaults = [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()];
        self.run(defaults)
    }

    /// Starts the command and returns at once. By default the streams are the caller's own; those that are
    /// [`Stdio::piped`] are available in the child.
    ///
    /// # Errors
    /// As [`Command::output`].
    pub fn spawn(&mut self) -> Result<Child> {
        Child::new(self.given()?.start()?)
    }

    /// The job of [`Command::spawn`].
    pub(crate) fn given(&self) -> Result<Job> {
        if let Some((rows, columns)) = self.terminal {
            return self.job(Streams::Terminal { rows, columns });
        }
        let defaults = [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()];
        self.job(Streams::Given(self.streams(defaults)?))
    }

    /// The job of [`Command::output`].
    pub(crate) fn captured(&self, defaults: [Stdio; 3]) -> Result<Job> {
        let input = self.input.as_ref().map(|Input(bytes)| bytes.clone());
        self.job(Streams::Captured { streams: self.streams(defaults)?, input })
    }

    fn run(&mut self, defaults: [Stdio; 3]) -> Result<ExecutionResult> {
        let mut running = self.captured(defaults)?.start()?;
        let outcome = running.wait()?;
        Ok(ExecutionResult::of(outcome, running.take_output()))
    }

    /// The streams for one start: descriptors are copied, so that a command can be started again.
    fn streams(&self, defaults: [Stdio; 3]) -> Result<[Stdio; 3]> {
        let mut streams = defaults;
        for (stream, said) in streams.iter_mut().zip(&self.streams) {
            if let Some(said) = said {
                *stream = said.try_clone()?;
            }
        }
        Ok(streams)
    }

    fn job(&self, streams: Streams) -> Result<Job> {
        let (policy, extras) = match self.place {
            CommandPlace::Sandbox(Sandbox { policy, extras, .. })
            | CommandPlace::Pool(Sandbox { policy, extras, .. }, _) => (policy, Some(extras)),
            CommandPlace::Session(policy, _) => (policy, None),
        };
        let mut policy = Arc::clone(policy);
        if self.clear {
            Arc::make_mut(&mut policy).environment.base = EnvironmentBase::Clear;
        }
        for (key, value) in &self.variables.0 {
            change(&mut Arc::make_mut(&mut policy).environment, key, value.as_deref())
                .map_err(|error| SandboxError::ConfigValidation(format!("env: {error}").into()))?;
        }
        if let Some(limit) = self.timeout {
            let own = &mut Arc::make_mut(&mut policy).limits.wall_time;
            *own = Some(own.map_or(limit, |own| own.min(limit)));
        }
        if let Some(bytes) = self.max_output {
            let own = &mut Arc::make_mut(&mut policy).limits.output;
            *own = Some(own.map_or(bytes, |own| own.min(bytes)));
        }
        let mut folder = self.folder.as_ref().map(std::path::absolute).transpose()?;
        if let Some(workspace) = &self.workspace {
            if let CommandPlace::Session(..) = self.place {
                let why = "workspace: the folders of a session are those that it started with\nhelp: list it for the sandbox of the session";
                return Err(SandboxError::ConfigValidation(why.into()));
            }
            let workspace = std::path::absolute(workspace)?;
            Arc::make_mut(&mut policy).files.allow_write.push(PathRule {
                pattern: PathPattern::literal(&workspace),
                missing: Missing::Error,
                follow_link: true,
                lenient: false,
                without_exceptions: false,
                of_profile: false,
                look: SearchScope::Everywhere,
                origin: Origin("workspace".into()),
            });
            folder.get_or_insert(workspace);
        }
        if let (Some(folder), CommandPlace::Sandbox(_) | CommandPlace::Pool(..)) = (&folder, self.place) {
            Arc::make_mut(&mut policy).process.workdir = Some(folder.clone());
        }
        let mut job = Job::new(policy, self.words.clone());
        job.streams = streams;
        match self.place {
            CommandPlace::Session(_, session) => {
                (job.session, job.workdir) = (Some(Arc::clone(session)), folder);
            }
            CommandPlace::Pool(_, pool) => job.pool = Some(pool.clone()),
            CommandPlace::Sandbox(_) => {}
        }
        if let Some(extras) = extras {
            job.hooks = Hooks { count: extras.count_usage, ask: extras.ask.clone(), ..Hooks::default() };
        }
        Ok(job)
    }
}

impl Sandbox {
    /// Prepares a command, as with [`std::process::Command`].
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let result = sandbox.command("tr").args(["a-z", "A-Z"]).input("shout").output()?;
    /// assert_eq!(result.stdout, "SHOUT");
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command<'_> {
        Command::new(CommandPlace::Sandbox(self), program.as_ref())
    }

    /// Runs a command to its end and captures its output. It reads an empty standard input.
    ///
    /// # Errors
    /// When the sandbox cannot be set up or the command cannot be executed. A command that fails is not an error: see
    /// [`ExecutionResult::exit_code`].
    pub fn run(&self, command: &str, args: &[&str]) -> Result<ExecutionResult> {
        self.command(command).args(args).output()
    }

    /// The same with input for the command.
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let result = sandbox.run_with_input("tr", &["a-z", "A-Z"], b"shout")?;
    /// assert_eq!(result.stdout, "SHOUT");
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn run_with_input(&self, command: &str, args: &[&str], input: &[u8]) -> Result<ExecutionResult> {
        self.command(command).args(args).input(input).output()
    }

    /// Starts a command and returns at once, with its standard streams as pipes.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// let sandbox = kennel::Sandbox::builder().build()?;
    /// let mut child = sandbox.spawn("cat", &[])?;
    /// child.take_stdin().unwrap().write_all(b"there and back")?;
    /// let mut text = String::new();
    /// child.take_stdout().unwrap().read_to_string(&mut text)?;
    /// assert_eq!(text, "there and back");
    /// assert!(child.wait()?.success());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn spawn(&self, command: &str, args: &[&str]) -> Result<Child> {
        let mut command = self.command(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(args).spawn()
    }
}

/// Sets or removes a variable.
fn change(
    environment: &mut EnvironmentPolicy,
    key: &OsStr,
    value: Option<&OsStr>,
) -> std::result::Result<(), ValueError> {
    environment.set.retain(|(own, _)| own != key);
    match value {
        Some(value) => environment.set.push(variable(key, value)?),
        None => {
            environment.pass.retain(|own| own != key);
            environment.unset.push(name(key)?);
        }
    }
    Ok(())
}
